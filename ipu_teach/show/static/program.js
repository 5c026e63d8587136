// The programs as a tree, all keys of which are its own.
EXTRA.program = EXTRA.tree;
