"""The engine on Ray: users trained by worker processes, on this machine or on many.

    pieces.py     a cohort cut into pieces of equal predicted cost, whatever workers there are
    worker.py     what a worker does: train a piece, and return its partial sums
    identity.py   which Tacit and JAX a process runs; all processes of a run must agree
    pool.py       the workers: who has which piece, who was lost, who is slow
    mistakes.py   what is told of an error in a worker
    connection.py Ray itself: started here, or joined where it runs
    users.py      the engine

A worker stands on the users' side of the gate. It gets the broadcast model, the clip norms and the numbers of the users of its
piece. It returns their sum, clipped and weighed, in float64 (or integers, for secure sums), and never one user's update. No key
of the mechanism's noise leaves the driver, which adds the noise once, to the merged sum. Ledger and participation record are
written by the driver.
"""
