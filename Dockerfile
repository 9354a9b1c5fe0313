# Tacit as a container: docker build -t tacit . && docker run --rm -v "$PWD":/data tacit train demo
#
# EXTRAS names the extras of pyproject.toml to install: --build-arg EXTRAS=fleet,postgres,onnx
# PYTHON is the version that requirements.lock was made with.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ARG EXTRAS=""
WORKDIR /source
COPY pyproject.toml README.md LICENSE requirements.lock requirements-dev.lock ./
COPY recipes recipes
COPY tacit tacit
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
RUN python -m venv /opt/tacit \
    && /opt/tacit/bin/pip install --no-cache-dir --constraint requirements.lock --constraint requirements-dev.lock \
        "$(ls /wheels/tacit-*.whl)${EXTRAS:+[${EXTRAS}]}"

FROM python:${PYTHON}-slim
RUN useradd --uid 1000 --create-home tacit && install --directory --owner=tacit --group=tacit /data
COPY --from=build /opt/tacit /opt/tacit
ENV PATH=/opt/tacit/bin:$PATH \
    MPLCONFIGDIR=/tmp/matplotlib \
    PYTHONUNBUFFERED=1
USER tacit
WORKDIR /data
VOLUME /data
# `docker stop` is like Ctrl-C: a run stops after its current round, with a checkpoint.
STOPSIGNAL SIGINT
ENTRYPOINT ["tacit"]
CMD ["--help"]
