"""The operator: turns two custom resources into exporters and a scheduler.

It looks at what there is, decides in pure functions what is to be done (`exporters_plan`,
`scheduler_plan`), and does it (`plan_executor`). Whatever happened before, a pass over the present
state leads to the same end.
"""
