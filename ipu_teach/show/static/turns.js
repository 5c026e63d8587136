// The turns of loops as a tree, and the way to those that wrote the element that was asked for.
EXTRA.turns = (kit) => {
  const tree = EXTRA.tree(kit),
    [, part] = tree.parts.find(([code]) => code === kit.scene.codes.length - 1) || [0, 0];
  const wrote = [...Array(tree.tree.count).keys()].filter((i) => kit.of(part, i));
  function next() {
    const after = kit.chosen ? kit.chosen.i : -1;
    tree.choose(wrote.find((i) => i > after) ?? wrote[0]);
  }
  if (!wrote.length) return tree;
  tree.nodes[0].append(kit.button("Next that wrote it", next));
  return {
    ...tree,
    help: `${tree.help} W goes to the next turn that wrote it.`, keys: { ...tree.keys, w: next },
  };
};
