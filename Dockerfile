# Serves translation over HTTP: docs/serving.md, section "In a container". pip reads its indexes from these arguments, or from
# a pip.conf that is given as a secret, which the image does not keep. PIP_FIND_LINKS is a folder or a page with wheels.
FROM python:3.11-slim AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN python -m venv --without-pip /opt/transduce
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    python -m pip --python /opt/transduce/bin/python install --no-cache-dir --constraint constraints.txt '.[serve,int8]'

FROM python:3.11-slim
COPY --from=build /opt/transduce /opt/transduce
RUN useradd --system --uid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin transduce
# /tmp is the one folder that the server writes into: parts of uploaded documents, and numba's cache.
ENV PATH=/opt/transduce/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 HOME=/tmp NUMBA_CACHE_DIR=/tmp/numba
USER 10001
EXPOSE 5000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:5000/ready', timeout=4)"]
ENTRYPOINT ["transduce"]
CMD ["serve", "--host", "0.0.0.0", "/models"]
