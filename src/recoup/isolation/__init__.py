"""The wall within one machine: an algorithm that is not Recoup's runs in a process that never held a record.

`release(..., isolate=True)` starts it, hands down public terms and rounds as JSON, and takes requests back: `process`
is the curator's end of the pipe, `child` the other one, and `carried` how an algorithm gets there without running here.
"""
