# %% [markdown]
# # Tutorial
#
# From a model and a question to a result that can be applied, checked and handed on, in about a minute on two
# cores. This page is a script, [tutorial.py](tutorial.py): run it, or open it as a notebook (each `# %%` is a cell).
# What you see below the code is what it printed.
#
# ## A model and a question
#
# `wiki-lstm` comes with pivotal: a word-level LSTM of 2 x 650 units, trained on Wikipedia.

# %%
import pivotal as pv

model = pv.load_model("wiki-lstm")
model

# %% [markdown]
# After *The doctors near the car* it wants a plural verb. Which of its 1,300 units make it so?

# %%
for word, probability in model.next_words("The doctors near the car", k=3):
    print(f"{word:6} {probability:.2f}")

# %% [markdown]
# The question is asked with **minimal pairs**: a prefix, and two words that may follow. The **cue**, in brackets, is
# the word that decides.

# %%
pairs = pv.load_phenomenon("number-agreement")
pairs

# %% [markdown]
# Some pairs are held out: whatever we find will be judged on them, and nothing is chosen by them. To be quick, this
# page trains on 2,000 of the other 11,000.

# %%
train, test = pairs.split(test=1000, seed=0)
problem = pv.Problem(model, train.sample(2000, seed=0), steps="every")
problem

# %% [markdown]
# ## Find
#
# The search learns a mask over all units together with the values to set them to, and lets the number of units shrink
# to the four that we allow. Runs are cheap, because they go through the model together.

# %% tags=["varies"]
search = pv.LearnedMask(max_units=4, updates=100, refit=30)
found = search.solve(problem, runs=2, seed=0)
found

# %% tags=["varies"]
found.plot()

# %% [markdown]
# ## Evaluate
#
# On the held-out pairs: how often does the preference flip, in every construction and in both directions, and what
# does each unit add? The KL says how far everything else that the model predicts was moved.

# %% tags=["varies"]
scores = pv.evaluate(found.best, problem.on(test))
scores

# %% tags=["varies"]
scores.plot()

# %% [markdown]
# ## Apply
#
# Within the block, the model has those units set. Outside it is untouched.

# %% tags=["varies"]
prompt = "The doctors near the car"
print("untouched", *(f"{word} {probability:.2f}" for word, probability in model.next_words(prompt, k=3)))
with model.intervened(found.best, direction="singular"):
    print("singular ", *(f"{word} {probability:.2f}" for word, probability in model.next_words(prompt, k=3)))

# %% [markdown]
# ## Trace
#
# What happens along one sentence: the units, untouched and set, and the probability of both words after every step.

# %% tags=["varies"]
pair = next(pair for pair in test if pair.group == "nounpp")
trace = pv.trace(model, found.best, pair)
trace

# %% tags=["varies"]
trace.plot()

# %% [markdown]
# ## Is every unit needed? Would others do?
#
# That a search found nothing better proves little. A certificate leaves each unit out, swaps it for others and tries
# all single units. Here with little effort, on sixty prefixes and by flips alone, though the search had the KL in mind
# as well; `pivotal certify` [does it in earnest](certify.md). Where it does not hold, it names the better set.

# %% tags=["varies"]
effort = pv.Effort(candidates=2, audit=1, points=3, sample=12, finalists=2, polish=10, pairs="none")
pv.certify(found.best, problem.sample(60), effort=effort)

# %% [markdown]
# ## Keep it, hand it on
#
# An intervention is a small folder. It knows the model it belongs to, and refuses any other.

# %%
found.best.save("number-units")
again = pv.Intervention.load("number-units")
print(again == found.best)
try:
    with pv.load_model("planted").intervened(again, direction="plural"):
        pass
except pv.PivotalError as error:
    print(str(error).split(",")[0])

# %% [markdown]
# ## A question of your own
#
# Pairs can come from [a file](bring-your-own-pairs.md) or be made. Do the number units decide reflexives as well,
# *himself* or *themselves*, of which the search has seen none?

# %%
from itertools import product

NOUNS = {"actor": "actors", "doctor": "doctors", "king": "kings", "player": "players", "poet": "poets"}
VERBS = ("hurt", "defended", "blamed", "introduced", "killed", "found")
PLACES = ("", "near the car", "behind the houses", "with the books")
made = [
    pv.MinimalPair(f"The {noun} {place} {verb}", 1, ("himself", "themselves"), label, place or "plain")
    for nouns, verb, place in product(NOUNS.items(), VERBS, PLACES)
    for noun, label in zip(nouns, pairs.labels, strict=True)
]
reflexives = pv.PairSet("reflexives", pairs.labels, tuple(made))
reflexives

# %%
asked = problem.on(reflexives)
print(f"Untouched, the model is right in {asked.clean_accuracy:.0%} of {len(asked)}.")

# %% tags=["varies"]
pv.evaluate(found.best, asked)

# %% [markdown]
# To find the units that decide *these* pairs, ask the same way: `search.solve(problem.on(train_part))`. From the
# command line all of this is `pivotal find`, `evaluate`, `trace` and `certify`, with a report at the end
# ([Start](start.md)).
