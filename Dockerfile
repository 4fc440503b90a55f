# Build here, run there: the image holds the two programs and the libraries they need. deploy/README.md says how to use it.
FROM debian:trixie-slim AS build
WORKDIR /src
COPY dev ./
RUN ./dev setup
COPY . .
RUN cmake --preset release -DATTEND_BUILD_TESTS=OFF \
 && cmake --build --preset release \
 && strip build/release/bin/attend-server build/release/bin/attend \
 && dpkg-query -W -f '${Package}=${Version}\n' nlohmann-json3-dev libcli11-dev >build/compiled-in

FROM debian:trixie-slim
RUN apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends \
      ca-certificates libcurl4t64 libdnnl3.6 libgrpc++1.51t64 libicu76 libprotobuf32t64 libssl3t64 libsystemd0 \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/build/release/bin/attend-server /src/build/release/bin/attend /usr/local/bin/
COPY --from=build /src/deploy/sbom.sh /src/build/compiled-in /tmp/sbom/
# Where the sources are is its builder's to say: --build-arg=SOURCE=https://...
ARG SOURCE=
LABEL org.opencontainers.image.title="attend-server" \
      org.opencontainers.image.description="Attention over gRPC" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="$SOURCE"
# What is inside: docker run --rm --entrypoint cat attend /usr/share/doc/attend/sbom.cdx.json
RUN mkdir -p /usr/share/doc/attend \
 && xargs /tmp/sbom/sbom.sh attend "$(attend --version)" </tmp/sbom/compiled-in >/usr/share/doc/attend/sbom.cdx.json \
 && rm -r /tmp/sbom
USER 65532:65532
# gRPC; metrics (--metrics-listen=0.0.0.0:8002 --metrics-insecure); health alone, for probes (--health-listen=0.0.0.0:8004).
EXPOSE 8001 8002 8004
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["attend", "health", "--server=127.0.0.1:8001"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["attend-server"]
# --insecure: plaintext, on whatever network the container is put. Replace it with --tls-certificate and --tls-key.
CMD ["--listen=0.0.0.0:8001", "--insecure", "--metrics-listen=0.0.0.0:8002"]
