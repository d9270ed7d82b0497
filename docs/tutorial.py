# %% [markdown]
# # Tutorial
#
# Find, evaluate, apply and save the units that switch the number of a verb, step by step in Python. It takes about a
# minute on two cores. The page is also a [notebook](tutorial.ipynb) and a [script](tutorial.py). `pivotal.find` does
# most of these steps in one call ([Start](start.md)).
#
# ## A model and a question
#
# `wiki-lstm` is bundled: a word-level LSTM with 2 x 650 units, trained on Wikipedia.

# %%
import pivotal

model = pivotal.load_model("wiki-lstm")
model

# %% [markdown]
# After *The doctors near the car* the model predicts a plural verb. Which of its 1,300 units switch that?

# %%
for word, probability in model.next_words("The doctors near the car", k=3):
    print(f"{word:6} {probability:.2f}")

# %% [markdown]
# A question is a set of **minimal pairs**: a prefix and two words that may follow it. The **cue**, in brackets, is the
# word that decides which of the two is right.

# %%
pairs = pivotal.load_phenomenon("number-agreement")
pairs

# %% [markdown]
# Hold out about 1,000 pairs; no prefix is in both parts. To save time, train on 2,000 of the others.

# %%
train, test = pairs.split(test=1000, seed=0)
problem = pivotal.Problem(model, train.sample(2000, seed=0), steps="every")
problem

# %% [markdown]
# ## Find
#
# The default search ranks all units by gradients, swaps one unit at a time while that helps, and fits the values.
# Each value stays in the natural range of its unit, the 1st to 99th percentile of its own states. A second run draws
# other training pairs: does it find the same units?

# %% tags=["varies"]
search = pivotal.searches.Exchange(max_units=4)
found = search.solve(problem, runs=2, seed=0)
found

# %% tags=["varies"]
found.plot()

# %% [markdown]
# ## Evaluate
#
# How often does the preference flip on held-out pairs, and how much does each unit contribute? The KL divergence
# measures how much the predictions change. Flips alone are weak evidence that the model uses these units:
# `pivotal.find` makes further checks and ends with a [verdict](evidence.md).

# %% tags=["varies"]
scores = pivotal.evaluate(found.best, problem.on(test))
scores

# %% tags=["varies"]
scores.plot()

# %% [markdown]
# ## Apply
#
# `edited` is the model with the intervention applied. The model itself does not change.

# %% tags=["varies"]
prompt = "The doctors near the car"
print("untouched", *(f"{word} {probability:.2f}" for word, probability in model.next_words(prompt, k=3)))
edited = model.intervened(found.best, direction="singular")
print("singular ", *(f"{word} {probability:.2f}" for word, probability in edited.next_words(prompt, k=3)))

# %% [markdown]
# ## Trace
#
# A trace follows one sentence word by word, with and without the intervention.

# %% tags=["varies"]
pair = next(pair for pair in test if pair.group == "nounpp")
trace = pivotal.trace(found.best, model, pair)
trace

# %% tags=["varies"]
trace.plot()

# %% [markdown]
# ## Certify
#
# Is every unit needed? Is there a better set? A certificate removes each unit, swaps it for others, and tries every
# single unit. If it does not hold, it names the better set. This example spends little effort; [`pivotal
# certify`](certify.md) is thorough.

# %% tags=["varies"]
effort = pivotal.evidence.Effort(
    candidates=2, audit=1, points=3, sample=12, finalists=2, polish=10, pairs="none"
)
pivotal.certify(found.best, problem.sample(60), effort=effort)

# %% [markdown]
# ## Save and load
#
# An intervention is a small folder. It records which model it belongs to, and other models refuse it.

# %%
found.best.save("number-units")
again = pivotal.Intervention.load("number-units")
print(again == found.best)
try:
    pivotal.load_model("planted").intervened(again, direction="plural")
except pivotal.PivotalError as error:
    print(str(error).split(",")[0])

# %% [markdown]
# ## Another question
#
# Do the number units also switch reflexive pronouns, *himself* or *themselves*? The search has seen none of them. Here
# the pairs are bundled; your own can come from [a file or from code](bring-your-own-pairs.md).

# %%
asked = problem.on(pivotal.load_phenomenon("reflexive-number"))
print(f"The untouched model is right on {asked.clean_accuracy:.0%} of {len(asked)} pairs.")

# %% tags=["varies"]
print("Flipped:", pivotal.evaluate(found.best, asked).flip_accuracy)

# %% [markdown]
# To find the units that switch *these* pairs, search on them: `search.solve(problem.on(train_part))`. On the command
# line, the same steps are `pivotal find`, `evaluate`, `trace` and `certify`.
