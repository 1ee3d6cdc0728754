# podman build -f catalog.Dockerfile -t IMAGE . in this folder
FROM quay.io/operator-framework/opm:latest
ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]
COPY catalog /configs/numakube-operator/
LABEL operators.operatorframework.io.index.configs.v1=/configs
