"""The scheduler: the program that binds pods as `numakube.scheduling` decides.

The deciding half, plugins and configuration included, is `numakube.scheduling`. This is the acting
half:

    settings            options and configuration file
    process             all of it together, with leader election
    scheduling_loop     the loop: from the queue through a cycle to what is done about it
    pod_queue           the queue with a clock and a bell
    mirror_listener     what becomes of changes that the mirror tells of
    binding_cycle       reserve, permit, bind, and undo
    gang_cycle          plans for gangs, carried out as a whole
    preemption_actions  nominations, and the eviction of victims
    rejected_pods       what is learnt from pods that kubelets rejected
    attempt_results     where a tried pod waits next, and who learns of it
    decision_events     what users see: events and conditions
    default_binder      the plugin that binds pods at the API server
    waiting_pods        pods that a plugin holds back before they are bound
    volume_binder       binding volumes for the plugin VolumeBinding
    metrics             figures
    scheduler_endpoints
                        a look inside
"""
