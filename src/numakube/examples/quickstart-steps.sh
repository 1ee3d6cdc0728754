# shellcheck shell=bash
# What the quickstarts for kind and minikube have in common; they source this file.
IMAGE=${IMAGE:-localhost/numakube:quickstart}
TIMEOUT=${TIMEOUT:-180s}

# Print a command and run it; with DRY_RUN=1 only print it.
run() {
  printf '+ %s\n' "$*"
  if [ -z "${DRY_RUN:-}" ]; then "$@"; fi
}

need() {
  local program
  for program in "$@"; do
    if [ -z "${DRY_RUN:-}" ] && ! command -v "$program" >/dev/null; then
      echo "error: $program is not on the PATH" >&2
      exit 2
    fi
  done
}

# Build the image from a checkout of numakube, unless it is there. Its tag is not latest: that would be pulled every time.
image_of() {
  if [ -n "${DRY_RUN:-}" ] || ! docker image inspect "$IMAGE" >/dev/null 2>&1; then
    run docker build --tag "$IMAGE" "$1"
  fi
}

install_numakube() {
  run numakube check kubelets --exit-zero
  run numakube deploy --image "$IMAGE" --wait
}

# A pod on standard output: its name, and how many CPUs it wants. It says itself where it is.
pod() {
  cat <<END
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  schedulerName: numakube-scheduler
  restartPolicy: Never
  containers:
  - name: main
    image: $IMAGE
    imagePullPolicy: IfNotPresent
    args: [align, --stay]
    resources: {limits: {cpu: "$2", memory: 256Mi}}
END
}

apply() {
  printf '+ kubectl apply -f - <<END\n%s\nEND\n' "$(pod "$@")"
  if [ -z "${DRY_RUN:-}" ]; then pod "$@" | kubectl apply -f -; fi
}

# More CPUs than any NUMA node can give.
too_many() {
  if [ -n "${DRY_RUN:-}" ]; then echo 64; return; fi
  local path='{range .items[*].zones[*].resources[?(@.name=="cpu")]}{.allocatable}{"\n"}{end}'
  local most
  most=$(kubectl get noderesourcetopologies -o "jsonpath=$path" | sort -n | tail -1)
  echo $((most + 1))
}

first_pods() {
  apply aligned 2
  run kubectl wait --for=condition=Ready pod/aligned "--timeout=$TIMEOUT"
  run kubectl logs aligned
  apply too-wide "$(too_many)"
  run kubectl wait --for='jsonpath={.status.conditions[?(@.type=="PodScheduled")].reason}=Unschedulable' \
    pod/too-wide "--timeout=$TIMEOUT"
  # It ends with 1 if the pod fits nowhere, which is the point here.
  run kubectl numa explain pod too-wide || true
}
