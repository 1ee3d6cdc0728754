#!/usr/bin/env bash
# numakube on kind: a cluster whose kubelets align pods, the stack on it, a pod that is aligned and one that cannot be.
#
#   CLUSTER=numa IMAGE=localhost/numakube:quickstart SOURCE=. ./quickstart-kind.sh
#
# Needs kind, docker (or podman as docker), kubectl and numakube. With DRY_RUN=1 it prints what it would do.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=quickstart-steps.sh
. "$here/quickstart-steps.sh"
CLUSTER=${CLUSTER:-numa}

need kind docker kubectl numakube
image_of "${SOURCE:-.}"
run kind create cluster --name "$CLUSTER" --config "$here/kind-cluster.yaml" --wait 5m
run kind load docker-image "$IMAGE" --name "$CLUSTER"
install_numakube
first_pods
echo "Done. Remove it all with: kind delete cluster --name $CLUSTER"
