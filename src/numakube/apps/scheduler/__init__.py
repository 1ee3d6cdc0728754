"""``numakube scheduler``: a complete secondary scheduler.

settings    options and configuration file
assembly    profiles with our plugins and those of installed packages
scheduler   the loop: queue, cycle, reservation
binding     binding pods, in order on each node
eviction    making room: victims of preemption
outcomes    what users see: events and conditions
guard       pods that kubelets reject again and again
metrics     figures
process     all of it together, with leader election and endpoints
"""
