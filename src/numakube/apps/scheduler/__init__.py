"""``numakube scheduler``: a complete secondary scheduler.

settings     options and configuration file
scheduler    the loop: queue, cycle, reservation
binder       the plugin that binds pods at the API server
eviction     making room: victims of preemption
outcomes     what users see: events and conditions
permits      pods that a plugin holds back before they are bound
volumes      binding volumes for the plugin VolumeBinding
metrics      figures
endpoints    a look inside
process      all of it together, with leader election
command      the command line

The deciding half, plugins and configuration included, is `numakube.scheduling.assembly`.
"""
