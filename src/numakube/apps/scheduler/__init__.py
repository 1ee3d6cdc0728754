"""``numakube scheduler``: a complete secondary scheduler.

settings     options and configuration file
catalogue    every plugin, ours and those of installed packages
assembly     profiles with their plugins, sharing one state of the cluster
scheduler    the loop: queue, cycle, reservation
eviction     making room: victims of preemption
outcomes     what users see: events and conditions
permits      pods that a plugin holds back before they are bound
volumes      binding volumes for the plugin VolumeBinding
metrics      figures
endpoints    a look inside
process      all of it together, with leader election
"""
