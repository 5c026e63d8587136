// The lines of a codelet as a tree.
EXTRA.code = EXTRA.tree;
