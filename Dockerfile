# One image for every component; an image for nodes alone can leave out what agents never import:
#   docker build -t numakube .
#   docker build -t numakube-agent --build-arg EXTRAS=exporter,sriov,enforcer --build-arg WITHOUT="numpy jinja2" .
# glibc, not musl: there is no fast protobuf for musl.
# A release pins the base image by its digest: --build-arg BASE=python:3.13-slim@sha256:...
ARG PYTHON=3.13
ARG BASE=python:${PYTHON}-slim

FROM ${BASE} AS build
ARG EXTRAS=scheduler,extender,exporter,sriov,dra-driver,placement,enforcer,operator,web,planning,conformance,tracing,levels,measured,virtual-machines,zone-affinity
ARG WITHOUT=
WORKDIR /source
# All that comes from the index are files with these checksums, the tools that build numakube included.
COPY release/image-requirements.txt ./release/
RUN pip download --no-cache-dir --require-hashes --only-binary :all: --dest /wheels -r release/image-requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
COPY packages ./packages
RUN python -m venv /opt/numakube \
 && pip wheel --no-cache-dir --no-index --find-links /wheels --no-deps --wheel-dir /wheels . ./packages/*/ \
 && /opt/numakube/bin/pip install --no-cache-dir --no-index --find-links /wheels "numakube[${EXTRAS}]" \
 && if [ -n "$WITHOUT" ]; then /opt/numakube/bin/pip uninstall --yes $WITHOUT; fi \
 && /opt/numakube/bin/python -m compileall -q /opt/numakube/lib

FROM ${BASE}
LABEL org.opencontainers.image.title="numakube" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/numakube /opt/numakube
# For `oc adm must-gather --image=`, which runs it.
COPY release/gather /usr/bin/gather
# For manifests that were written for others and name their program: ours takes its place.
RUN for pair in kube-scheduler=scheduler resource-topology-exporter=exporter nfd-topology-updater=exporter; do \
      printf '#!/bin/sh\nexec numakube %s "$@"\n' "${pair#*=}" > "/usr/bin/${pair%=*}" && chmod 755 "/usr/bin/${pair%=*}"; \
    done
ENV PATH=/opt/numakube/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# Components that need to see their host say so in their manifests.
USER 65532:65532
ENTRYPOINT ["numakube"]
