# Build here, run there: the image holds the two programs and the libraries they need. deploy/README.md says how to use it.
# For linux/amd64 and linux/arm64. The latter is cross-built on the former, and needs qemu's binfmt only to install packages.
FROM --platform=$BUILDPLATFORM debian:trixie-slim AS build
ARG BUILDARCH TARGETARCH
WORKDIR /src
COPY dev ./
RUN [ "$BUILDARCH" = "$TARGETARCH" ] && echo release >/preset || echo "$TARGETARCH" >/preset; ./dev setup "$(cat /preset)"
COPY . .
RUN cmake --preset "$(cat /preset)" -DATTEND_BUILD_TESTS=OFF \
 && cmake --build --preset "$(cat /preset)" --target attend-server attend \
 && mv "build/$(cat /preset)" build/image \
 && "$(sed -n 's/^CMAKE_STRIP:FILEPATH=//p' build/image/CMakeCache.txt)" build/image/bin/attend-server build/image/bin/attend \
 && dpkg-query -W -f '${Package}=${Version}\n' nlohmann-json3-dev libcli11-dev >build/compiled-in

FROM --platform=$TARGETPLATFORM debian:trixie-slim
RUN apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends \
      ca-certificates libcurl4t64 libgrpc++1.51t64 libicu76 libprotobuf32t64 libssl3t64 libsystemd0 \
      $([ "$(dpkg --print-architecture)" = arm64 ] || echo libdnnl3.6) \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/build/image/bin/attend-server /src/build/image/bin/attend /usr/local/bin/
COPY --from=build /src/deploy/sbom.sh /src/build/compiled-in /tmp/sbom/
# The address of the sources, which the builder gives: --build-arg=SOURCE=https://...
ARG SOURCE=
LABEL org.opencontainers.image.title="attend-server" \
      org.opencontainers.image.description="Attention over gRPC" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="$SOURCE"
# The packages in the image: docker run --rm --entrypoint cat attend /usr/share/doc/attend/sbom.cdx.json
RUN mkdir -p /usr/share/doc/attend \
 && xargs /tmp/sbom/sbom.sh attend "$(attend --version | cut -d" " -f2)" </tmp/sbom/compiled-in >/usr/share/doc/attend/sbom.cdx.json \
 && rm -r /tmp/sbom
USER 65532:65532
# Health alone, in plaintext, for probes and the check below: the same with TLS and tokens. Another port by this variable, which
# the check reads too: it asks 127.0.0.1. It precedes a file of --config, where health_listen therefore has no effect: a check
# cannot read that file.
ENV ATTEND_HEALTH_LISTEN=0.0.0.0:8004
# gRPC; metrics (--metrics-listen=0.0.0.0:8002 --metrics-insecure); health.
EXPOSE 8001 8002 8004
# Models may take ten minutes to load, as in Kubernetes and systemd. The first success ends the start period.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m --retries=3 \
  CMD attend health --server="127.0.0.1:${ATTEND_HEALTH_LISTEN##*:}"
STOPSIGNAL SIGTERM
ENTRYPOINT ["attend-server"]
# --insecure allows plaintext on the container's network. Replace it by --tls-certificate and --tls-key.
CMD ["--listen=0.0.0.0:8001", "--insecure", "--metrics-listen=0.0.0.0:8002"]
