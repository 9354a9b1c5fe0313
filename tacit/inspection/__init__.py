"""Find faults in private data without reading it: differentially private generative models show what the data looks like.

selection.py         which users and examples a generative model learns from (T1 to T6), decided on the user's side
example_scores.py    what a primary model predicts rightly on one user's examples, and how likely text is to a model
fault_scores.py      scores that show whether a fault is visible in generated images and words
held_out.py          the check that held-out users were not trained on
costs.py             the privacy cost of the models: one, several together, at scale

text/                inspection of text: a character model of the words that the vocabulary does not have
  run.py               an inspection as a run: the loop, the journal and the ledger around a character model
  primary.py           the next-word model that is inspected as well: its accuracy, and sentences it generates
  sentences.py         sentences drawn from a next-word model
  unknown_words.py     the rates of unknown words by place, and how well a model spells them
  findings.py          the words that the model generates, and what they point to: a section of the report
  comparison.py        two inspections compared
  bias.py              a model of the sentences that a model of public text finds unlikely, and what it makes up

images/              inspection of images: a classifier, a histogram of accuracies, two generative models
  data.py              the users with images: before the fault, with it, and held out
  stages.py            the models, each ready to be trained as a run
  accuracy_histogram.py   the histogram of users' accuracies that crosses the gate, and thresholds read from it
  run.py               the whole inspection: run after run, from the recipe to the findings
  findings.py          the images that both models generate, and what they point to: a section of the report

The recipes are in `tacit.recipe.text_inspection`, `image_inspection` and `bias_inspection`.
"""
