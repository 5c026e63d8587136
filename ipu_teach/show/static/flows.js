// What is under way, unpacked: of each message [source, size, receiver or receivers, begin, end,
// cells, after, count]. `_messages` of scene.py packs them, column by column.
EXTRA.flows = ({ scene }) => {
  const unpacked = ([n, heard, to, held, cells, ...packed]) => {
    const columns = packed.map((p) => unpack(p, n)), lists = [[heard, to], [held, cells]];
    const [receivers, carried] = lists.map(([many, flat]) => {
      const sizes = unpack(many, n), all = [...unpack(flat, sizes.reduce((a, b) => a + b))];
      return Array.from(sizes, (size) => all.splice(0, size));
    });
    return receivers.map((own, i) => {
      const [source, size, begin, end, ...rest] = columns.map((column) => column[i]);
      return [source, size, own.length > 1 ? own : own[0], begin, end, carried[i], ...rest];
    });
  };
  for (const s of scene.stills)
    if (s.flows) s.flows = { messages: unpacked(s.flows.messages) };
};
