# %% given
"""Known mistakes of lesson 13; what this file is: mistakes.py."""

from ipu_teach import FLOAT, HALF, keras
from ipu_teach.frontends import ir
from ipu_teach.keras import ipu
from ipu_teach.poplibs import popops
from ipu_teach.poplibs.popops import expr

entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


# %% 13.1: without accumulation
# why:  an update in training takes several micro-batches, and these are samples, too.
# next: multiply by accumulation where it trains.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * iterations * replicas


# %% 13.1: without replicas
# why:  each replica has samples of its own, and all of them come with the call.
# next: multiply by replicas.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * iterations * (accumulation if training else 1)


# %% 13.1: inference accumulates
# why:  without an update there is nothing to accumulate for, so inference leaves it out.
# next: where training is False, accumulation counts as 1.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * iterations * accumulation * replicas


# %% 13.1: stages count
# why:  all stages work on the same samples, each on its layers.
# next: leave stages out.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * iterations * replicas * stages * (accumulation if training else 1)


# %% 13.1: added
# why:  this adds the numbers up. Each iteration has all of the others' again.
# next: write a product.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * (iterations + replicas + (accumulation if training else 0))


# %% 13.1: without iterations
# clause: How many samples a call takes.
# why:  the loop on the device is part of a call, so the call brings what all its rounds take.
# next: multiply by iterations.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * replicas * (accumulation if training else 1)


# %% 13.1: micro-batches
# clause: How many samples does a call take?
# why:  these are batches. Each of them has several samples.
# next: multiply by batch.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return iterations * replicas * (accumulation if training else 1)


# %% 13.1: training turned round
# why:  accumulation counts when nothing is trained here, and not when it is.
# next: it is training that accumulates.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * iterations * replicas * (1 if training else accumulation)


# %% 13.2: the loop on the host
# not yet: 12 runs of the device
def train(make, images, labels, epochs, batch, steps):
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    model.compile(keras.optimizers.SGD(0.5), entropy)
    n = len(images) // (batch * steps) * batch * steps
    model.fit(images[:n], labels[:n], batch, epochs, verbose=0, shuffle=False)
    return model


# %% 13.2: a new model for each epoch
# not yet: 2 models were made
def train(make, images, labels, epochs, batch, steps):
    n = len(images) // (batch * steps) * batch * steps
    for _ in range(epochs):
        with ipu.ipu_strategy.IPUStrategy().scope():
            model = make()
        model.compile(keras.optimizers.SGD(0.5), entropy, steps_per_execution=steps)
        model.fit(images[:n], labels[:n], batch, verbose=0, shuffle=False)
    return model


# %% 13.2: compiled in each epoch
# clause: **compiled once**
# not yet: 2 programs were compiled
def train(make, images, labels, epochs, batch, steps):
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    n = len(images) // (batch * steps) * batch * steps
    for _ in range(epochs):
        model.compile(keras.optimizers.SGD(0.5), entropy, steps_per_execution=steps)
        model.fit(images[:n], labels[:n], batch, verbose=0, shuffle=False)
    return model


# %% 13.2: shuffled
# clause: in the order of the digits
# not yet: in their order, with shuffle=False
def train(make, images, labels, epochs, batch, steps):
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    model.compile(keras.optimizers.SGD(0.5), entropy, steps_per_execution=steps)
    n = len(images) // (batch * steps) * batch * steps
    model.fit(images[:n], labels[:n], batch, epochs, verbose=0)
    return model


# %% 13.2: what is over stays in
# clause: What fills no call at the end is left out.
# error in the answer: and 2 samples more
def train(make, images, labels, epochs, batch, steps):
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    model.compile(keras.optimizers.SGD(0.5), entropy, steps_per_execution=steps)
    model.fit(images, labels, batch, epochs, verbose=0, shuffle=False)
    return model


# %% 13.2: outside of the scope
# error in the answer: outside of an IPUStrategy's scope
def train(make, images, labels, epochs, batch, steps):
    model = make()
    model.compile(keras.optimizers.SGD(0.5), entropy, steps_per_execution=steps)
    n = len(images) // (batch * steps) * batch * steps
    model.fit(images[:n], labels[:n], batch, epochs, verbose=0, shuffle=False)
    return model


# %% 13.2: chances that are none
# error in the answer: the model does not end with a softmax
def train(make, images, labels, epochs, batch, steps):
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    loss = "sparse_categorical_crossentropy"
    model.compile(keras.optimizers.SGD(0.5), loss, steps_per_execution=steps)
    n = len(images) // (batch * steps) * batch * steps
    model.fit(images[:n], labels[:n], batch, epochs, verbose=0, shuffle=False)
    return model


# %% 13.2: one epoch
# not yet: 2 runs of the device
def train(make, images, labels, epochs, batch, steps):
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    model.compile(keras.optimizers.SGD(0.5), entropy, steps_per_execution=steps)
    n = len(images) // (batch * steps) * batch * steps
    model.fit(images[:n], labels[:n], batch, verbose=0, shuffle=False)
    return model


# %% 13.2: descent by the default
# clause: descent by 0.5
# not yet: this is descent by 0.01
def train(make, images, labels, epochs, batch, steps):
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    model.compile("sgd", entropy, steps_per_execution=steps)
    n = len(images) // (batch * steps) * batch * steps
    model.fit(images[:n], labels[:n], batch, epochs, verbose=0, shuffle=False)
    return model


# %% 13.2: accumulated
# not yet: this is descent after each 12 digits
def train(make, images, labels, epochs, batch, steps):
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    model.set_gradient_accumulation_options(steps)
    model.compile(keras.optimizers.SGD(0.5), entropy, steps_per_execution=steps)
    n = len(images) // (batch * steps) * batch * steps
    model.fit(images[:n], labels[:n], batch, epochs, verbose=0, shuffle=False)
    return model


# %% 13.2: the last digits
# not yet: the last digits were taken
def train(make, images, labels, epochs, batch, steps):
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    model.compile(keras.optimizers.SGD(0.5), entropy, steps_per_execution=steps)
    n = len(images) // (batch * steps) * batch * steps
    model.fit(images[-n:], labels[-n:], batch, epochs, verbose=0, shuffle=False)
    return model


# %% 13.2: whole batches, and not whole calls
# error in the answer: The call was given 32 samples for 8 batches
def train(make, images, labels, epochs, batch, steps):
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    model.compile(keras.optimizers.SGD(0.5), entropy, steps_per_execution=steps)
    n = len(images) // batch * batch
    model.fit(images[:n], labels[:n], batch, epochs, verbose=0, shuffle=False)
    return model


# %% 13.2: no return
# clause: return the model.
# not yet: is there a `return`?
def train(make, images, labels, epochs, batch, steps):
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    model.compile(keras.optimizers.SGD(0.5), entropy, steps_per_execution=steps)
    n = len(images) // (batch * steps) * batch * steps
    model.fit(images[:n], labels[:n], batch, epochs, verbose=0, shuffle=False)


# %% 13.2: the history
# not yet: History
def train(make, images, labels, epochs, batch, steps):
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    model.compile(keras.optimizers.SGD(0.5), entropy, steps_per_execution=steps)
    n = len(images) // (batch * steps) * batch * steps
    return model.fit(images[:n], labels[:n], batch, epochs, verbose=0, shuffle=False)


# %% 13.3: the last of all
# why:  this gives the last micro-batch of one replica, whatever the mode.
# next: go through the modes, one after the other, and ask how many come back.
def comes_back(mode, n, batch, micro, replicas, training):
    return batch, 1


# %% 13.3: all of them
# why:  this gives all micro-batches in each mode.
# next: Final, EveryN and Sum give fewer; and Default is Final when it trains.
def comes_back(mode, n, batch, micro, replicas, training):
    return batch * micro * replicas, micro * replicas


# %% 13.3: default is all
# why:  in training the default is Final: who trains looks at the weights, not at the outputs.
# next: Default is Final where training is True.
def comes_back(mode, n, batch, micro, replicas, training):
    count = {"All": micro, "Default": micro, "EveryN": micro // n}.get(mode, 1) * replicas
    return batch * count, count


# %% 13.3: default is the last
# why:  in inference the default is All: the outputs are what it is for.
# next: Default is All where training is False.
def comes_back(mode, n, batch, micro, replicas, training):
    count = {"All": micro, "EveryN": micro // n}.get(mode, 1) * replicas
    return batch * count, count


# %% 13.3: the first of each n
# clause: How many rows
# why:  this has one too many where n does not go into micro: it begins with the first.
# next: the n-th, the 2n-th and so on: micro // n of them.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": -(-micro // n)}.get(mode, 1) * replicas
    return batch * count, count


# %% 13.3: n of them
# why:  n is how far they are apart, and not how many they are.
# next: of micro micro-batches every n-th comes: micro // n.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": n}.get(mode, 1) * replicas
    return batch * count, count


# %% 13.3: the sum is one row
# why:  Sum adds micro-batches up number by number, so a whole batch of rows remains.
# next: batch rows of each replica.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": micro // n}.get(mode, 1) * replicas
    return (replicas if mode == "Sum" else batch * count), count


# %% 13.3: one for all replicas
# clause: from all replicas
# why:  each replica hands over its own, in all modes.
# next: multiply by replicas.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": micro // n}.get(mode, 1)
    return batch * count, count


# %% 13.3: one for all, where one comes
# why:  where one comes back it is one of each replica, in Final and in Sum as well.
# next: multiply by replicas in all modes.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro * replicas, "EveryN": micro // n * replicas}.get(mode, 1)
    return batch * count, count


# %% 13.3: a loss for each sample
# why:  the loss is a mean over its micro-batch: one number for each.
# next: as many losses as micro-batches come back.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": micro // n}.get(mode, 1) * replicas
    return batch * count, batch * count


# %% 13.3: one loss
# why:  this gives one loss whatever comes back. Losses come as the outputs do.
# next: one for each micro-batch that comes back.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": micro // n}.get(mode, 1) * replicas
    return batch * count, 1


# %% 13.3: losses before rows
# clause: (rows of the outputs, losses)
# why:  the two have changed places.
# next: rows of the outputs first, then losses.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": micro // n}.get(mode, 1) * replicas
    return count, batch * count


# %% 13.3: one Sum for all replicas
# why:  a Sum is added up on each replica by itself, and each hands over its own.
# next: times replicas, as for the last one.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": micro // n}.get(mode, 1) * replicas
    count = 1 if mode == "Sum" else count
    return batch * count, count


# %% 13.3: rows alone
# clause: return two numbers
# why:  this is the number of rows. How many losses there are is asked for, too.
# next: return both, with a comma between them.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    return batch * {"All": micro, "EveryN": micro // n}.get(mode, 1) * replicas


# %% 13.4: the slope above
# why:  this multiplies what is above 0, and leaves what is below.
# next: Select(a, b, condition) takes a where the condition holds.
def leaky(low, x, slope, g=None):
    of = [x] if g is None else [x, g]
    v = expr._1 if g is None else expr._2
    return low.call(popops.map, expr.Select(slope * v, v, expr._1 > 0), of)


# %% 13.4: forward only
# why:  the gradient is the forward again here: g is not asked.
# next: where g is given, hand on g or slope * g, by the sign of x.
def leaky(low, x, slope, g=None):
    return low.call(popops.map, expr.Select(expr._1, slope * expr._1, expr._1 > 0), [x])


# %% 13.4: by the sign of the gradient
# why:  the gradient is chosen by its own sign. Where the hill is steep is a matter of x.
# next: the condition is x > 0 in both.
def leaky(low, x, slope, g=None):
    of = [x if g is None else g]
    return low.call(popops.map, expr.Select(expr._1, slope * expr._1, expr._1 > 0), of)


# %% 13.4: g at zero
# why:  at x = 0 this gives g, and the gradient there is slope * g.
# next: x > 0, and not x >= 0.
def leaky(low, x, slope, g=None):
    of = [x] if g is None else [x, g]
    v = expr._1 if g is None else expr._2
    return low.call(popops.map, expr.Select(v, slope * v, expr._1 >= 0), of)


# %% 13.4: one slope for all
# why:  the slope is 0.1 for whoever asks.
# next: use the slope that was given.
def leaky(low, x, slope, g=None):
    of = [x] if g is None else [x, g]
    v = expr._1 if g is None else expr._2
    return low.call(popops.map, expr.Select(v, 0.1 * v, expr._1 > 0), of)


# %% 13.4: the larger of two
# why:  max(x, slope * x) is leaky relu for slopes below 1. For larger ones it is the other half.
# next: ask for the sign of x, with Select.
def leaky(low, x, slope, g=None):
    if g is None:
        return low.call(popops.map, expr.Max(expr._1, slope * expr._1), [x])
    return low.call(popops.map, expr.Select(expr._2, slope * expr._2, expr._1 > 0), [x, g])


# %% 13.4: where x lies
# why:  x has been changed. Others may read it later: the gradient does.
# next: popops.map makes a new tensor; map_in_place overwrites the first.
def leaky(low, x, slope, g=None):
    if g is None:
        low.call(popops.map_in_place, expr.Select(expr._1, slope * expr._1, expr._1 > 0), [x])
        return x
    return low.call(popops.map, expr.Select(expr._2, slope * expr._2, expr._1 > 0), [x, g])


# %% 13.4: nothing below
# why:  this is relu: below 0 nothing is let through.
# next: slope times it, instead of 0.
def leaky(low, x, slope, g=None):
    of = [x] if g is None else [x, g]
    v = expr._1 if g is None else expr._2
    return low.call(popops.map, expr.Select(v, 0 * v, expr._1 > 0), of)


# %% 13.4: the derivative alone
# why:  the gradient is 1 or the slope here, and not times what came.
# next: multiply by g: the chain rule.
def leaky(low, x, slope, g=None):
    if g is None:
        return low.call(popops.map, expr.Select(expr._1, slope * expr._1, expr._1 > 0), [x])
    ones = expr._2 - expr._2 + 1
    return low.call(popops.map, expr.Select(ones, slope * ones, expr._1 > 0), [x, g])


# %% 13.4: x and g change places
# clause: with g the gradient
# why:  the gradient hands on x here, and asks g for its sign.
# next: in map(expression, [x, g]) expr._1 is x, and expr._2 is g.
def leaky(low, x, slope, g=None):
    if g is None:
        return low.call(popops.map, expr.Select(expr._1, slope * expr._1, expr._1 > 0), [x])
    return low.call(popops.map, expr.Select(expr._1, slope * expr._1, expr._2 > 0), [x, g])


# %% 13.4: nothing for the gradient
# clause: without `g` it is the forward
# not yet: leaky with g
def leaky(low, x, slope, g=None):
    if g is None:
        return low.call(popops.map, expr.Select(expr._1, slope * expr._1, expr._1 > 0), [x])


# %% 13.4: call by call
# clause: **One compute set each**
# why:  each call of the library is a compute set of its own, with a sync before it.
# next: make one expression of it, for one popops.map.
def leaky(low, x, slope, g=None):
    v = x if g is None else g
    above = low.call(popops.map, expr._1 > 0, [x])
    small = low.call(popops.map, slope * expr._1, [v])
    return low.call(popops.map, expr.Select(expr._1, expr._2, expr._3), [v, small, above])


# %% 13.5: always anew
# clause: compiled only if it must be
# why:  this compiles for each call, whatever has changed.
# next: look into the cache first.
def run_for(cache, make, batch, iterations, rate, weights):
    run = make(batch, iterations)
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: never again
# why:  what was compiled first is used for all calls, also for another batch.
# next: the batch and the iterations are in the program: make them the key.
def run_for(cache, make, batch, iterations, rate, weights):
    run = cache.setdefault("run", None) or make(batch, iterations)
    cache["run"] = run
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: the iterations are forgotten
# why:  how often a call goes round is in the program, and this takes the old one.
# next: the key is (batch, iterations).
def run_for(cache, make, batch, iterations, rate, weights):
    if batch not in cache:
        cache[batch] = make(batch, iterations)
    run = cache[batch]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: the batch is forgotten
# why:  shapes are in the program, and this takes one that was made for another batch.
# next: the key is (batch, iterations).
def run_for(cache, make, batch, iterations, rate, weights):
    if iterations not in cache:
        cache[iterations] = make(batch, iterations)
    run = cache[iterations]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: the rate is in the key
# why:  another rate compiles again, and a rate is a value on the device: it can be written.
# next: leave the rate out of the key.
def run_for(cache, make, batch, iterations, rate, weights):
    key = batch, iterations, rate
    if key not in cache:
        cache[key] = make(batch, iterations)
    run = cache[key]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: the weights are in the key
# clause: Compile as seldom as can be.
# why:  other weights compile again, as if they were constants. They are variables on the device.
# next: leave the weights out of the key.
def run_for(cache, make, batch, iterations, rate, weights):
    key = batch, iterations, str(weights)
    if key not in cache:
        cache[key] = make(batch, iterations)
    run = cache[key]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: written when compiled
# why:  rate and weights are written once, when the run is new, and later ones are stale.
# next: write them in each call, whether it is new or not.
def run_for(cache, make, batch, iterations, rate, weights):
    if (batch, iterations) not in cache:
        run = cache[batch, iterations] = make(batch, iterations)
        run.write("rate", rate)
        for name, array in weights.items():
            run.write(name, array)
    return cache[batch, iterations]


# %% 13.5: the rate stays
# clause: with its rate
# why:  nobody writes the rate, so the device goes on with the old one.
# next: run.write("rate", rate) in each call.
def run_for(cache, make, batch, iterations, rate, weights):
    if (batch, iterations) not in cache:
        cache[batch, iterations] = make(batch, iterations)
    run = cache[batch, iterations]
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: the weights stay
# clause: and weights **written**
# why:  nobody writes the weights, so the device goes on with its own.
# next: run.write(name, array) for each of weights.items().
def run_for(cache, make, batch, iterations, rate, weights):
    if (batch, iterations) not in cache:
        cache[batch, iterations] = make(batch, iterations)
    run = cache[batch, iterations]
    run.write("rate", rate)
    return run


# %% 13.5: the first of the weights
# why:  only the first of the weights is written.
# next: write each of weights.items(), and return after that loop, not within it.
def run_for(cache, make, batch, iterations, rate, weights):
    if (batch, iterations) not in cache:
        cache[batch, iterations] = make(batch, iterations)
    run = cache[batch, iterations]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
        return run


# %% 13.5: the weights when compiled
# why:  the weights are written once, when the run is new, and later ones are stale.
# next: write them in each call, as the rate.
def run_for(cache, make, batch, iterations, rate, weights):
    if (batch, iterations) not in cache:
        run = cache[batch, iterations] = make(batch, iterations)
        for name, array in weights.items():
            run.write(name, array)
    cache[batch, iterations].write("rate", rate)
    return cache[batch, iterations]


# %% 13.5: a key of digits
# why:  the key is both numbers, one behind the other: 1 and 12 give the same text as 11 and 2.
# next: the key is the pair (batch, iterations).
def run_for(cache, make, batch, iterations, rate, weights):
    key = f"{batch}{iterations}"
    if key not in cache:
        cache[key] = make(batch, iterations)
    run = cache[key]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: only the last one
# clause: the same for all calls
# why:  the cache has one program, so who goes back to an earlier batch compiles it again.
# next: keep all of them, each by its key.
def run_for(cache, make, batch, iterations, rate, weights):
    if (batch, iterations) not in cache:
        cache.clear()
        cache[batch, iterations] = make(batch, iterations)
    run = cache[batch, iterations]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: by the product
# why:  two programs of another shape may take equally many samples in a call.
# next: the key is the pair, not its product.
def run_for(cache, make, batch, iterations, rate, weights):
    key = batch * iterations
    if key not in cache:
        cache[key] = make(batch, iterations)
    run = cache[key]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.6: all that is made
# clause: the backward reads
# why:  this counts all that the forward makes, whether the backward reads it or not.
# next: go through the inputs of the backward's operations.
def kept(graph):
    return {
        value.name: value.size * value.dtype.size
        for op in graph.ops
        for value in op.outs
        if op.part == "forward"
    }


# %% 13.6: parameters as well
# clause: what the forward made
# why:  inputs and variables are among them. They are in memory anyway, backward or not.
# next: only what graph.maker() has, made by an operation of the forward.
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" else ():
            while value in maker and ir.OPS[maker[value].kind].view:
                value = maker[value].inputs[0]
            if value not in maker or maker[value].part == "forward":
                found[value.name] = value.size * value.dtype.size
    return found


# %% 13.6: gradients as well
# why:  what the backward makes for itself is among them. It is not kept from the forward on.
# next: ask for the part of the operation that made it.
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" else ():
            while value in maker and ir.OPS[maker[value].kind].view:
                value = maker[value].inputs[0]
            if value in maker:
                found[value.name] = value.size * value.dtype.size
    return found


# %% 13.6: views count
# why:  views are among them, which have no memory of their own.
# next: while a view made the value, go on with its input.
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" else ():
            if value in maker and maker[value].part == "forward":
                found[value.name] = value.size * value.dtype.size
    return found


# %% 13.6: views are left out
# why:  what is read through a view is left out, and it must stay all the same.
# next: take what it is a view of, instead of nothing.
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" else ():
            view = value in maker and ir.OPS[maker[value].kind].view
            if value in maker and maker[value].part == "forward" and not view:
                found[value.name] = value.size * value.dtype.size
    return found


# %% 13.6: one step back
# why:  a view of a view is followed for one step, and the other one counts.
# next: while, and not if.
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" else ():
            if value in maker and ir.OPS[maker[value].kind].view:
                value = maker[value].inputs[0]
            if value in maker and maker[value].part == "forward":
                found[value.name] = value.size * value.dtype.size
    return found


# %% 13.6: one step back, in what computes
# why:  a view of a view is followed for one step, and the other one counts.
# next: while, and not if.
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" and not ir.OPS[op.kind].view else ():
            if value in maker and ir.OPS[maker[value].kind].view:
                value = maker[value].inputs[0]
            if value in maker and maker[value].part == "forward":
                found[value.name] = value.size * value.dtype.size
    return found


# %% 13.6: the size of the view
# why:  a slice is a view of a part, and this counts the part. The whole value has to stay.
# next: take the size of the value that the view is a view of.
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" and not ir.OPS[op.kind].view else ():
            origin = value
            while origin in maker and ir.OPS[maker[origin].kind].view:
                origin = maker[origin].inputs[0]
            if origin in maker and maker[origin].part == "forward":
                found[origin.name] = value.size * value.dtype.size
    return found


# %% 13.6: without integers
# why:  integers are left out. Places that the forward found are read by the backward, too.
# next: count values of any dtype.
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" and not ir.OPS[op.kind].view else ():
            while value in maker and ir.OPS[maker[value].kind].view:
                value = maker[value].inputs[0]
            if value in maker and maker[value].part == "forward" and value.dtype in (FLOAT, HALF):
                found[value.name] = value.size * value.dtype.size
    return found


# %% 13.6: elements
# clause: name and bytes
# why:  these are elements. A FLOAT has 4 bytes, and a HALF 2.
# next: times value.dtype.size.
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" else ():
            while value in maker and ir.OPS[maker[value].kind].view:
                value = maker[value].inputs[0]
            if value in maker and maker[value].part == "forward":
                found[value.name] = value.size
    return found


# %% 13.6: four bytes each
# why:  a HALF has 2 bytes, and this counts 4 for all.
# next: value.dtype.size says how many.
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" else ():
            while value in maker and ir.OPS[maker[value].kind].view:
                value = maker[value].inputs[0]
            if value in maker and maker[value].part == "forward":
                found[value.name] = value.size * 4
    return found


# %% 13.6: the first input
# why:  only the first input of each operation is looked at. A product's gradient needs the other.
# next: go through all of op.inputs.
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs[:1] if op.part == "backward" else ():
            while value in maker and ir.OPS[maker[value].kind].view:
                value = maker[value].inputs[0]
            if value in maker and maker[value].part == "forward":
                found[value.name] = value.size * value.dtype.size
    return found


# %% 13.6: without the statistics
# why:  what batch norm found of each channel is left out. It is small, and its gradient needs it.
# next: count all values, of whatever shape.
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" else ():
            while value in maker and ir.OPS[maker[value].kind].view:
                value = maker[value].inputs[0]
            if value in maker and maker[value].part == "forward" and len(value.shape) > 1:
                found[value.name] = value.size * value.dtype.size
    return found


# %% 13.6: the forward's own
# why:  these are read by the forward. Only some of them are read again in the backward.
# next: the reader's part is "backward", the maker's is "forward".
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "forward" else ():
            while value in maker and ir.OPS[maker[value].kind].view:
                value = maker[value].inputs[0]
            if value in maker:
                found[value.name] = value.size * value.dtype.size
    return found


# %% 13.3: every n-th of all replicas together
# clause: come back from all replicas
# why:  this counts every n-th micro-batch of all replicas together. Each replica counts its own.
# next: divide micro by n, rounded down, and then multiply by the replicas.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    every = {"All": micro * replicas, "EveryN": micro * replicas // n}
    count = every.get(mode, replicas)
    return count * batch, count


# %% 13.3: every n-th of all, and none where n is larger
# why:  every n-th is counted over all replicas together. Each replica counts its own.
# next: micro // n for each replica, and then times the replicas.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    every = micro * replicas // n if n <= micro else 0
    count = {"All": micro * replicas, "EveryN": every}.get(mode, replicas)
    return count * batch, count


# %% 13.2: one long epoch
# not yet: the epochs are one long row of digits here
import numpy as np


def train(make, images, labels, epochs, batch, steps):
    x, y = np.concatenate([images] * epochs), np.concatenate([labels] * epochs)
    n = len(x) // (batch * steps) * batch * steps
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    model.compile(keras.optimizers.SGD(0.5), entropy, steps_per_execution=steps)
    model.fit(x[:n], y[:n], batch_size=batch, epochs=1, shuffle=False, verbose=0)
    return model


# %% 13.5: a dictionary of its own
# clause: `cache` is a dictionary that is yours, empty at first
# not yet: this run was kept outside `cache`
runs_of_mine = {}


def run_for(cache, make, batch, iterations, rate, weights):
    if (batch, iterations) not in runs_of_mine:
        runs_of_mine[batch, iterations] = make(batch, iterations)
    run = runs_of_mine[batch, iterations]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run
