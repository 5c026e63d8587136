// The lanes of workers and of memory are the player's, the code below them is a tree.
EXTRA.tile = (kit) => {
  if (!kit.scene.marks.some((mark) => mark.kind === "tree")) return {};
  const { draw, hit, about, lay, nodes } = EXTRA.tree(kit);
  return { draw, hit, about, lay, nodes };
};
