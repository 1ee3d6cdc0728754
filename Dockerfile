# One image for every component; an image for nodes alone can leave out what agents never import:
#   docker build -t numakube .
#   docker build -t numakube-agent --build-arg EXTRAS=exporter,sriov,enforcer --build-arg WITHOUT="numpy jinja2" .
# glibc, not musl: there is no fast protobuf for musl.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
ARG EXTRAS=scheduler,extender,exporter,sriov,enforcer,operator,web
ARG WITHOUT=
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/numakube \
 && /opt/numakube/bin/pip install --no-cache-dir -c constraints.txt ".[${EXTRAS}]" \
 && if [ -n "$WITHOUT" ]; then /opt/numakube/bin/pip uninstall --yes $WITHOUT; fi \
 && /opt/numakube/bin/python -m compileall -q /opt/numakube/lib

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="numakube" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/numakube /opt/numakube
# For `oc adm must-gather --image=`, which runs it.
COPY release/gather /usr/bin/gather
ENV PATH=/opt/numakube/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# Components that need to see their host say so in their manifests.
USER 65532:65532
ENTRYPOINT ["numakube"]
