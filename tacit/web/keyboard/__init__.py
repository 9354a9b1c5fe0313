"""A keyboard in the browser: the models of runs are sent to the page, which computes its suggestions itself.

rules.py       what `tacit compare` assumes of a keyboard, as the page needs it
models.py      which models a run offers, and why others are left out
run_model.py   the model of a run, and the one that it was pre-trained as, as files for the page
ngrams.py      n-grams of public text and of made-up people; never of private users
routes.py      what the page asks for when it opens: afterwards it asks for nothing
"""
