#!/usr/bin/env bash
# numakube on minikube: a virtual machine with two NUMA nodes, the stack on it, a pod that is aligned and one that cannot be.
#
#   PROFILE=numa DRIVER=kvm2 IMAGE=localhost/numakube:quickstart SOURCE=. ./quickstart-minikube.sh
#
# Needs minikube, docker (or podman as docker), kubectl and numakube. Only the driver kvm2 can give the machine more than one NUMA
# node; with others it has those of the host. With DRY_RUN=1 it prints what it would do.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=quickstart-steps.sh
. "$here/quickstart-steps.sh"
PROFILE=${PROFILE:-numa}
DRIVER=${DRIVER:-kvm2}

need minikube docker kubectl numakube
image_of "${SOURCE:-.}"
numa=()
if [ "$DRIVER" = kvm2 ]; then numa=(--kvm-numa-count=2); fi
# The kubelet's flags. Reserved memory is what kube-reserved and eviction-hard keep from pods, to the byte.
run minikube start --profile "$PROFILE" --driver "$DRIVER" --cpus 8 --memory 8g "${numa[@]}" \
  --extra-config=kubelet.cpu-manager-policy=static \
  --extra-config=kubelet.cpu-manager-reconcile-period=5s \
  --extra-config=kubelet.reserved-cpus=0 \
  --extra-config=kubelet.memory-manager-policy=Static \
  --extra-config=kubelet.kube-reserved=memory=500Mi \
  --extra-config='kubelet.eviction-hard=memory.available<100Mi' \
  --extra-config=kubelet.reserved-memory=0:memory=600Mi \
  --extra-config=kubelet.topology-manager-policy=single-numa-node
run minikube --profile "$PROFILE" image load "$IMAGE"
install_numakube
first_pods
echo "Done. Remove it all with: minikube delete --profile $PROFILE"
