# Build here, run there: the image holds the two programs and the libraries they need. deploy/README.md says how to use it.
FROM debian:trixie-slim AS build
WORKDIR /src
COPY dev ./
RUN ./dev setup
COPY . .
RUN cmake --preset release -DATTEND_BUILD_TESTS=OFF \
 && cmake --build --preset release \
 && strip build/release/bin/attend-server build/release/bin/attend

FROM debian:trixie-slim
RUN apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends \
      libcurl4t64 libdnnl3.6 libgrpc++1.51t64 libicu76 libprotobuf32t64 \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/build/release/bin/attend-server /src/build/release/bin/attend /usr/local/bin/
USER 65532:65532
EXPOSE 8001
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["attend", "health", "--server=127.0.0.1:8001"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["attend-server"]
# Plaintext, as containers on one machine talk to each other: --insecure says so. Your own arguments replace these.
CMD ["--listen=0.0.0.0:8001", "--insecure"]
