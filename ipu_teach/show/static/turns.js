// The turns of loops as a tree, and the way to those that wrote the element that was asked for.
EXTRA.turns = (kit) => {
  const tree = EXTRA.tree(kit), code = kit.scene.codes.length - 1, codes = kit.array(tree.tree, "code", tree.tree.code, tree.tree.count);
  const wrote = [...Array(tree.tree.count).keys()].filter((i) => kit.of(codes, i) === code);
  function next() {
    const after = kit.chosen ? kit.chosen.i : -1;
    tree.choose(wrote.find((i) => i > after) ?? wrote[0]);
  }
  if (!wrote.length) return tree;
  return {
    ...tree, nodes: [...tree.nodes, kit.make("div", { className: "row" }, kit.button("Next that wrote it", next))],
    help: `${tree.help} W goes to the next turn that wrote it.`, keys: { ...tree.keys, w: next },
  };
};
