# %% given
"""Known mistakes of lesson 13; what this file is: mistakes.py."""

from ipu_teach import FLOAT, HALF, keras
from ipu_teach.frontends import ir
from ipu_teach.keras import ipu
from ipu_teach.poplibs import popops
from ipu_teach.poplibs.popops import expr

entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


# %% 13.1: without accumulation
# why:  in training, an update takes `accumulation` micro-batches, and this leaves out that factor.
# next: multiply by `accumulation` if `training` is True.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * iterations * replicas


# %% 13.1: without replicas
# why:  each replica has its own samples, and this counts those of one replica.
# next: multiply by `replicas`.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * iterations * (accumulation if training else 1)


# %% 13.1: inference accumulates
# why:  this multiplies by `accumulation` in inference, too, but inference has no updates.
# next: leave out `accumulation` if `training` is False.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * iterations * accumulation * replicas


# %% 13.1: stages count
# why:  this multiplies by the stages, but all stages work on the same samples.
# next: leave out the factor `stages`.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * iterations * replicas * stages * (accumulation if training else 1)


# %% 13.1: all numbers
# why:  this multiplies all five numbers, but all stages work on the same samples, and inference
#   does not accumulate.
# next: leave out the numbers that add no samples.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * iterations * accumulation * replicas * stages


# %% 13.1: added
# why:  this adds the lengths of the loops, but the loops are inside each other.
# next: multiply the numbers.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * (iterations + replicas + (accumulation if training else 0))


# %% 13.1: without iterations
# clause: Return how many samples a call takes.
# why:  this leaves out the loop on the device, but one call runs all its iterations.
# next: multiply by `iterations`.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * replicas * (accumulation if training else 1)


# %% 13.1: micro-batches
# clause: How many samples does a call take?
# why:  this is the number of micro-batches, but each has `batch` samples.
# next: multiply by `batch`.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return iterations * replicas * (accumulation if training else 1)


# %% 13.1: training turned round
# why:  this multiplies by `accumulation` in inference instead of in training.
# next: multiply by `accumulation` if `training` is True.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * iterations * replicas * (1 if training else accumulation)


# %% 13.1: replicas divided by stages
# why:  this divides the replicas by the stages. A replica has all stages of the model, so
#   `replicas` already counts whole models.
# next: multiply by `replicas`, and leave out `stages`.
def samples(batch, iterations, accumulation, replicas, stages, training):
    return batch * iterations * (accumulation if training else 1) * max(1, replicas // stages)


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
# not yet: 2 models were created
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
# clause: Take the digits in their order.
# not yet: in their own order, with shuffle=False
def train(make, images, labels, epochs, batch, steps):
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    model.compile(keras.optimizers.SGD(0.5), entropy, steps_per_execution=steps)
    n = len(images) // (batch * steps) * batch * steps
    model.fit(images[:n], labels[:n], batch, epochs, verbose=0)
    return model


# %% 13.2: what is over stays in
# clause: Leave out the digits at the end that do not fill a call.
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
# clause: gradient descent at a rate of 0.5
# not yet: the rate is 0.01, the default
def train(make, images, labels, epochs, batch, steps):
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    model.compile("sgd", entropy, steps_per_execution=steps)
    n = len(images) // (batch * steps) * batch * steps
    model.fit(images[:n], labels[:n], batch, epochs, verbose=0, shuffle=False)
    return model


# %% 13.2: accumulated
# not yet: the model makes one update for 12 digits
def train(make, images, labels, epochs, batch, steps):
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
    model.set_gradient_accumulation_options(steps)
    model.compile(keras.optimizers.SGD(0.5), entropy, steps_per_execution=steps)
    n = len(images) // (batch * steps) * batch * steps
    model.fit(images[:n], labels[:n], batch, epochs, verbose=0, shuffle=False)
    return model


# %% 13.2: the last digits
# not yet: the model trains on the last digits
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
# why:  this returns one micro-batch in every mode.
# next: let the mode decide how many micro-batches come back from each replica.
def comes_back(mode, n, batch, micro, replicas, training):
    return batch, 1


# %% 13.3: all of them
# why:  this returns all micro-batches in every mode.
# next: let the mode decide how many micro-batches come back from each replica.
def comes_back(mode, n, batch, micro, replicas, training):
    return batch * micro * replicas, micro * replicas


# %% 13.3: default is all
# why:  this treats Default as All in training, too, but in training it means Final.
# next: replace Default by Final if `training` is True.
def comes_back(mode, n, batch, micro, replicas, training):
    count = {"All": micro, "Default": micro, "EveryN": micro // n}.get(mode, 1) * replicas
    return batch * count, count


# %% 13.3: default is the last
# why:  this treats Default as Final in inference, too, but in inference it means All.
# next: replace Default by All if `training` is False.
def comes_back(mode, n, batch, micro, replicas, training):
    count = {"All": micro, "EveryN": micro // n}.get(mode, 1) * replicas
    return batch * count, count


# %% 13.3: the first of each n
# clause: How many rows
# why:  if n does not divide `micro`, this counts one micro-batch too many.
# next: return micro // n micro-batches: the n-th, the 2n-th and so on.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": -(-micro // n)}.get(mode, 1) * replicas
    return batch * count, count


# %% 13.3: n of them
# why:  this returns n micro-batches, but n is the distance between them.
# next: return micro // n micro-batches.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": n}.get(mode, 1) * replicas
    return batch * count, count


# %% 13.3: the sum is one row
# why:  this returns one row for Sum, but Sum adds whole micro-batches, which have `batch` rows.
# next: return `batch` rows for each replica.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": micro // n}.get(mode, 1) * replicas
    return (replicas if mode == "Sum" else batch * count), count


# %% 13.3: one for all replicas
# clause: come back from all replicas
# why:  this counts the outputs of one replica, but each replica returns its own.
# next: multiply by `replicas` in every mode.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": micro // n}.get(mode, 1)
    return batch * count, count


# %% 13.3: the losses of one replica
# why:  the rows are right, but the losses are those of a single replica.
# next: multiply the number of losses by `replicas`, too.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": micro // n}.get(mode, 1)
    return batch * count * replicas, count


# %% 13.3: one for all, where one comes
# why:  in Final and Sum this returns one micro-batch in total, but each replica returns one.
# next: multiply by `replicas` in every mode.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro * replicas, "EveryN": micro // n * replicas}.get(mode, 1)
    return batch * count, count


# %% 13.3: a loss for each sample
# why:  this returns a loss for each sample, but the loss is the mean over a micro-batch.
# next: return one loss for each micro-batch that comes back.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": micro // n}.get(mode, 1) * replicas
    return batch * count, batch * count


# %% 13.3: one loss
# why:  this returns one loss, however many micro-batches come back.
# next: return one loss for each micro-batch that comes back.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": micro // n}.get(mode, 1) * replicas
    return batch * count, 1


# %% 13.3: losses before rows
# clause: Return (rows of the outputs, losses)
# why:  the two numbers are in the wrong order.
# next: return the rows of the outputs first, then the losses.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": micro // n}.get(mode, 1) * replicas
    return count, batch * count


# %% 13.3: one Sum for all replicas
# why:  this returns one Sum in total, but each replica returns its own Sum.
# next: multiply by `replicas`, as for Final.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    count = {"All": micro, "EveryN": micro // n}.get(mode, 1) * replicas
    count = 1 if mode == "Sum" else count
    return batch * count, count


# %% 13.3: rows alone
# clause: return the two numbers
# why:  this is only the number of rows, but the exercise also asks for the number of losses.
# next: return both numbers, separated by a comma.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    return batch * {"All": micro, "EveryN": micro // n}.get(mode, 1) * replicas


# %% 13.4: the slope above
# why:  this multiplies the values above 0 by `slope`, instead of those below 0.
# next: put the unchanged value first: expr.Select(a, b, condition) is a where the condition is
#   true.
def leaky(low, x, slope, g=None):
    of = [x] if g is None else [x, g]
    v = expr._1 if g is None else expr._2
    return low.call(popops.map, expr.Select(slope * v, v, expr._1 > 0), of)


# %% 13.4: forward only
# why:  the gradient is the forward function again, and does not use g.
# next: if g is given, select expr._2 or `slope` * expr._2 by the sign of x.
def leaky(low, x, slope, g=None):
    return low.call(popops.map, expr.Select(expr._1, slope * expr._1, expr._1 > 0), [x])


# %% 13.4: by the sign of the gradient
# why:  this selects the gradient by the sign of g, but it should be the sign of x.
# next: pass [x, g] to popops.map, and use the condition expr._1 > 0.
def leaky(low, x, slope, g=None):
    of = [x if g is None else g]
    return low.call(popops.map, expr.Select(expr._1, slope * expr._1, expr._1 > 0), of)


# %% 13.4: g at zero
# why:  at x = 0 this gives g, but the gradient there is `slope` * g.
# next: select g only where expr._1 > 0, and `slope` * g everywhere else, also at x = 0.
def leaky(low, x, slope, g=None):
    of = [x] if g is None else [x, g]
    v = expr._1 if g is None else expr._2
    return low.call(popops.map, expr.Select(v, slope * v, expr._1 >= 0), of)


# %% 13.4: one slope for all
# why:  the factor below 0 is always 0.1 here.
# next: use the argument `slope` instead of 0.1.
def leaky(low, x, slope, g=None):
    of = [x] if g is None else [x, g]
    v = expr._1 if g is None else expr._2
    return low.call(popops.map, expr.Select(v, 0.1 * v, expr._1 > 0), of)


# %% 13.4: the larger of two
# why:  max(x, slope * x) is leaky relu only for slopes below 1.
# next: select by the sign of x: expr.Select(expr._1, slope * expr._1, expr._1 > 0).
def leaky(low, x, slope, g=None):
    if g is None:
        return low.call(popops.map, expr.Max(expr._1, slope * expr._1), [x])
    return low.call(popops.map, expr.Select(expr._2, slope * expr._2, expr._1 > 0), [x, g])


# %% 13.4: where x lies
# why:  this overwrites x, but other operations may read x later, such as the gradient.
# next: use popops.map instead of popops.map_in_place.
def leaky(low, x, slope, g=None):
    if g is None:
        low.call(popops.map_in_place, expr.Select(expr._1, slope * expr._1, expr._1 > 0), [x])
        return x
    return low.call(popops.map, expr.Select(expr._2, slope * expr._2, expr._1 > 0), [x, g])


# %% 13.4: nothing below
# why:  this is relu, which returns 0 below 0.
# next: multiply the values below 0 by `slope` instead of 0.
def leaky(low, x, slope, g=None):
    of = [x] if g is None else [x, g]
    v = expr._1 if g is None else expr._2
    return low.call(popops.map, expr.Select(v, 0 * v, expr._1 > 0), of)


# %% 13.4: the derivative alone
# why:  the gradient does not have the factor g here.
# next: return g or slope * g.
def leaky(low, x, slope, g=None):
    if g is None:
        return low.call(popops.map, expr.Select(expr._1, slope * expr._1, expr._1 > 0), [x])
    ones = expr._2 - expr._2 + 1
    return low.call(popops.map, expr.Select(ones, slope * ones, expr._1 > 0), [x, g])


# %% 13.4: x and g change places
# clause: with g the gradient
# why:  the gradient selects values of x by the sign of g, but it should select values of g by the
#   sign of x.
# next: in map(expression, [x, g]), use expr._1 for x and expr._2 for g.
def leaky(low, x, slope, g=None):
    if g is None:
        return low.call(popops.map, expr.Select(expr._1, slope * expr._1, expr._1 > 0), [x])
    return low.call(popops.map, expr.Select(expr._1, slope * expr._1, expr._2 > 0), [x, g])


# %% 13.4: nothing for the gradient
# clause: without `g` it is the forward pass
# not yet: leaky with g
def leaky(low, x, slope, g=None):
    if g is None:
        return low.call(popops.map, expr.Select(expr._1, slope * expr._1, expr._1 > 0), [x])


# %% 13.4: call by call
# clause: **one compute set for each**
# why:  each library call adds a separate compute set, with a sync before it.
# next: write everything as one expression for one call of popops.map.
def leaky(low, x, slope, g=None):
    v = x if g is None else g
    above = low.call(popops.map, expr._1 > 0, [x])
    small = low.call(popops.map, slope * expr._1, [v])
    return low.call(popops.map, expr.Select(expr._1, expr._2, expr._3), [v, small, above])


# %% 13.5: always anew
# clause: compiled only if necessary
# why:  this compiles a program in each call, even if the cache already has it.
# next: call build() only if (batch, iterations) is not in the cache.
def run_for(cache, build, batch, iterations, rate, weights):
    run = build(batch, iterations)
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: never again
# why:  the first program is used in all calls, even for another batch or another number of
#   iterations.
# next: use the pair (batch, iterations) as the key of the cache.
def run_for(cache, build, batch, iterations, rate, weights):
    run = cache.setdefault("run", None) or build(batch, iterations)
    cache["run"] = run
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: the iterations are forgotten
# why:  the key is only the batch, so this uses a program with another number of iterations.
# next: use the pair (batch, iterations) as the key of the cache.
def run_for(cache, build, batch, iterations, rate, weights):
    if batch not in cache:
        cache[batch] = build(batch, iterations)
    run = cache[batch]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: the batch is forgotten
# why:  the key is only the number of iterations, so this uses a program for another batch.
# next: use the pair (batch, iterations) as the key of the cache.
def run_for(cache, build, batch, iterations, rate, weights):
    if iterations not in cache:
        cache[iterations] = build(batch, iterations)
    run = cache[iterations]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: the rate is in the key
# why:  a new rate compiles a program again, but the rate can be written to the device.
# next: leave the rate out of the key.
def run_for(cache, build, batch, iterations, rate, weights):
    key = batch, iterations, rate
    if key not in cache:
        cache[key] = build(batch, iterations)
    run = cache[key]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: the weights are in the key
# clause: Compile as rarely as possible.
# why:  new weights compile a program again, but weights can be written to the device.
# next: leave the weights out of the key.
def run_for(cache, build, batch, iterations, rate, weights):
    key = batch, iterations, str(weights)
    if key not in cache:
        cache[key] = build(batch, iterations)
    run = cache[key]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: written when compiled
# why:  the rate and the weights are written only after compiling, so later values are ignored.
# next: write the rate and the weights in each call.
def run_for(cache, build, batch, iterations, rate, weights):
    if (batch, iterations) not in cache:
        run = cache[batch, iterations] = build(batch, iterations)
        run.write("rate", rate)
        for name, array in weights.items():
            run.write(name, array)
    return cache[batch, iterations]


# %% 13.5: the rate stays
# clause: with its rate
# why:  the rate is never written, so the device keeps its old rate.
# next: call run.write("rate", rate) in each call.
def run_for(cache, build, batch, iterations, rate, weights):
    if (batch, iterations) not in cache:
        cache[batch, iterations] = build(batch, iterations)
    run = cache[batch, iterations]
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: the weights stay
# clause: and weights **written**
# why:  the weights are never written, so the device keeps its old weights.
# next: call run.write(name, array) for each of weights.items().
def run_for(cache, build, batch, iterations, rate, weights):
    if (batch, iterations) not in cache:
        cache[batch, iterations] = build(batch, iterations)
    run = cache[batch, iterations]
    run.write("rate", rate)
    return run


# %% 13.5: the first of the weights
# why:  only the first array of the weights is written, since the function returns inside the loop.
# next: put the return after the loop.
def run_for(cache, build, batch, iterations, rate, weights):
    if (batch, iterations) not in cache:
        cache[batch, iterations] = build(batch, iterations)
    run = cache[batch, iterations]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
        return run


# %% 13.5: the weights when compiled
# why:  the weights are written only after compiling, so later weights are ignored.
# next: write the weights in each call, like the rate.
def run_for(cache, build, batch, iterations, rate, weights):
    if (batch, iterations) not in cache:
        run = cache[batch, iterations] = build(batch, iterations)
        for name, array in weights.items():
            run.write(name, array)
    cache[batch, iterations].write("rate", rate)
    return cache[batch, iterations]


# %% 13.5: a key of digits
# why:  the key joins both numbers to one text, so 1 and 12 give the same key as 11 and 2.
# next: use the pair (batch, iterations) as the key.
def run_for(cache, build, batch, iterations, rate, weights):
    key = f"{batch}{iterations}"
    if key not in cache:
        cache[key] = build(batch, iterations)
    run = cache[key]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: only the last one
# clause: the same for all calls
# why:  the cache keeps only the last program, so an earlier one is compiled again.
# next: leave out cache.clear(), so that the cache keeps all programs.
def run_for(cache, build, batch, iterations, rate, weights):
    if (batch, iterations) not in cache:
        cache.clear()
        cache[batch, iterations] = build(batch, iterations)
    run = cache[batch, iterations]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.5: by the product
# why:  the key is batch * iterations, but different programs can have the same product.
# next: use the pair (batch, iterations) as the key of the cache.
def run_for(cache, build, batch, iterations, rate, weights):
    key = batch * iterations
    if key not in cache:
        cache[key] = build(batch, iterations)
    run = cache[key]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.6: all that is made
# clause: Return {name: bytes} of the values that the backward pass keeps
# why:  this counts everything that the forward pass computes, even if the backward pass does not
#   read it.
# next: go through the inputs of the operations whose part is "backward".
def kept(graph):
    return {
        value.name: value.size * value.dtype.size
        for op in graph.ops
        for value in op.outs
        if op.part == "forward"
    }


# %% 13.6: parameters as well
# clause: a dictionary of the values that are kept
# why:  this includes inputs and variables, but no operation of the forward pass computes them.
# next: count only values in graph.maker().
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
# why:  this includes values that the backward pass itself computes.
# next: count a value only if the part of its maker is "forward".
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
# why:  this includes views, which have no memory of their own.
# next: while the maker of a value is a view, replace the value by the view's input.
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" else ():
            if value in maker and maker[value].part == "forward":
                found[value.name] = value.size * value.dtype.size
    return found


# %% 13.6: views are left out
# why:  this leaves out values that are read through a view, but they must stay in memory.
# next: replace a view by its input, inputs[0], and count that value.
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" else ():
            view = value in maker and ir.OPS[maker[value].kind].view
            if value in maker and maker[value].part == "forward" and not view:
                found[value.name] = value.size * value.dtype.size
    return found


# %% 13.6: one step back
# why:  this replaces a view once, but its input may be a view, too.
# next: use while instead of if.
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
# why:  this replaces a view once, but its input may be a view, too.
# next: use while instead of if.
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
# why:  this counts the size of a view, but the whole value under it stays in memory.
# next: use the size of the value on which the view is based.
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
# why:  this leaves out integers, but the backward pass also reads indices from the forward pass.
# next: count values of every dtype.
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
# why:  these are numbers of elements, but the exercise asks for bytes.
# next: multiply the size by value.dtype.size.
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
# why:  this counts 4 bytes for every element, but a HALF has 2.
# next: multiply the size by value.dtype.size.
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
# why:  this looks only at the first input of each operation, but the gradient of a product reads
#   the other one, too.
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
# why:  this leaves out values with one dimension, such as the statistics of batch norm.
# next: count values of every shape.
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
# why:  this goes through the inputs of the forward operations, but only values that the backward
#   pass reads are kept.
# next: go through the inputs of the operations whose part is "backward".
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
# why:  this counts every n-th micro-batch of all replicas together, but each replica counts its
#   own.
# next: use micro // n for each replica, and multiply by `replicas`.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    every = {"All": micro * replicas, "EveryN": micro * replicas // n}
    count = every.get(mode, replicas)
    return count * batch, count


# %% 13.3: every n-th of all, and none where n is larger
# why:  this counts every n-th micro-batch of all replicas together, but each replica counts its
#   own.
# next: use micro // n for each replica, and multiply by `replicas`.
def comes_back(mode, n, batch, micro, replicas, training):
    if mode == "Default":
        mode = "Final" if training else "All"
    every = micro * replicas // n if n <= micro else 0
    count = {"All": micro * replicas, "EveryN": every}.get(mode, replicas)
    return count * batch, count


# %% 13.2: one long epoch
# not yet: all epochs are one long array of digits here
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
# clause: `cache` is a dictionary for your use, empty at first
# not yet: this run was stored outside `cache`
runs_of_mine = {}


def run_for(cache, build, batch, iterations, rate, weights):
    if (batch, iterations) not in runs_of_mine:
        runs_of_mine[batch, iterations] = build(batch, iterations)
    run = runs_of_mine[batch, iterations]
    run.write("rate", rate)
    for name, array in weights.items():
        run.write(name, array)
    return run


# %% 13.6: only the first dimension
# not yet: the name norm6 is right, but its bytes are wrong
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" else ():
            while value in maker and ir.OPS[maker[value].kind].view:
                value = maker[value].inputs[0]
            if value in maker and maker[value].part == "forward":
                found[value.name] = value.shape[0] * value.dtype.size
    return found


# %% 13.6: once for each reader
# why:  this adds the bytes of a value once for each operation that reads it.
# next: store the bytes under the name instead of adding them.
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" else ():
            while value in maker and ir.OPS[maker[value].kind].view:
                value = maker[value].inputs[0]
            if value in maker and maker[value].part == "forward":
                bytes_before = found.get(value.name, 0)
                found[value.name] = bytes_before + value.size * value.dtype.size
    return found


# %% 13.6: under the name of the view
# not yet: reshape19 is a view, which has no memory of its own
def kept(graph):
    maker, found = graph.maker(), {}
    for op in graph.ops:
        for value in op.inputs if op.part == "backward" else ():
            name = value.name
            while value in maker and ir.OPS[maker[value].kind].view:
                value = maker[value].inputs[0]
            if value in maker and maker[value].part == "forward":
                found[name] = value.size * value.dtype.size
    return found


# %% 13.6: all but the views of the forward
# not yet: no operation of the backward pass reads conv0
def kept(graph):
    return {
        value.name: value.size * value.dtype.size
        for op in graph.ops
        for value in op.outs
        if op.part == "forward" and not ir.OPS[op.kind].view
    }
