"""Attention in sentences of many lengths: each word looks at the words of its own sentence.

A word is a vector of a few numbers. Its attention to another word is the dot product of both, or
zero if that is negative. The result for a word is the sum of all words of its sentence, each
multiplied by the attention to it. The words are packed into rows with room for `ROOM` words.
`whose` has the number of the sentence to which each word belongs, or -1 for padding.

Paper: "Packing: Towards 2x NLP BERT Acceleration", Matej Kosec, Sheng Fu and Mario Michael Krell.

It is right, and slow. Where the time goes is for you to find.
"""

from __future__ import annotations

import numpy as np

from ipu_teach import INT, Device, Engine, Graph, Input, Output, Report, Target, Vector, Vertex
from ipu_teach.program import Execute

Data = dict[str, np.ndarray]
ROOM = 32
WIDTH = 4


class Look(Vertex):
    """Computes the attention results of the words in one row.

    Two words belong to one sentence if they have the same number in `whose`.
    """

    words: Input[Vector[Vector[INT]]]
    whose: Input[Vector[INT]]
    seen: Output[Vector[Vector[INT]]]

    def compute(self) -> None:
        for i in range(len(self.words)):
            looks = np.maximum(self.words @ self.words[i], 0)
            self.seen[i] = np.where(self.whose == self.whose[i], looks, 0) @ self.words


def make(seed: int = 4, sentences: int = 780) -> Data:
    """Return `words`, int32 [words of all sentences, WIDTH], and the `lengths` of the sentences.

    A length is a number of words. The sentences follow one another in `words`.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.geometric(0.08, sentences).clip(1, ROOM)
    return {
        "words": rng.integers(-9, 10, (lengths.sum(), WIDTH)).astype(np.int32),
        "lengths": lengths,
    }


def placed(lengths: np.ndarray) -> list[tuple[int, int]]:
    """Return `(row, first)` for each sentence: its row, and the index of its first word in the row.

    `lengths` has the number of words of each sentence.
    """
    return [(row, 0) for row in range(len(lengths))]


def run(target: Target, data: Data | None = None) -> tuple[Report, Data]:
    """Return the report of a run, and its results: `seen`, int32 of the shape of `words`.

    A row of `seen` is the attention result of a word.
    """
    data = data or make()
    places = placed(data["lengths"])
    ends = np.cumsum(data["lengths"])
    rows = 1 + max(row for row, _ in places)
    whose = np.full((rows, ROOM), -1)
    where = np.zeros(len(data["words"]), int)
    for k, (row, first) in enumerate(places):
        cells = np.arange(first, first + data["lengths"][k])
        whose[row, cells] = k
        where[ends[k] - len(cells) : ends[k]] = row * ROOM + cells
    table = np.zeros((rows * ROOM, WIDTH), np.int32)
    table[where] = data["words"]

    graph = Graph(target)
    words = graph.add_variable(INT, (rows, ROOM, WIDTH), "words")
    seen = graph.add_variable(INT, words.shape, "seen")
    owner = graph.add_variable(INT, (rows, ROOM), "whose")
    look = graph.add_compute_set("look")
    for row in range(rows):
        vertex = graph.add_vertex(look, Look, words=words[row], whose=owner[row], seen=seen[row])
        for part in (vertex, words[row], owner[row], seen[row]):
            graph.set_tile_mapping(part, row % target.num_tiles)
    graph.create_host_write("words", words)
    graph.create_host_write("whose", owner)
    graph.create_host_read("seen", seen)
    engine = Engine(graph, Execute(look))
    engine.load(Device(target))
    engine.write_tensor("words", table.reshape(words.shape))
    engine.write_tensor("whose", whose)
    engine.run()
    return engine.report, {"seen": engine.read_tensor("seen").reshape(table.shape)[where]}


def expected(data: Data) -> Data:
    """Return the results of `run`, computed by numpy, a sentence at a time.

    The results of `run` must be equal to these.
    """
    each = np.split(data["words"], np.cumsum(data["lengths"])[:-1])
    return {"seen": np.concatenate([np.maximum(words @ words.T, 0) @ words for words in each])}
