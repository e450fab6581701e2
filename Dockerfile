# docker build --tag rpq .
# docker run --rm --interactive rpq run 'a2q/c2a*' --input - --time-unit s --window 30d --slide 1d --output - < edges.tsv > rows.csv
#
# Kernels are compiled when the image is built, for the processor of the machine that builds it; where it runs on others,
# build it for all that have AVX2 with --build-arg CPU=x86-64-v3. Nothing need be writable when it runs, but for /data if there
# is a checkpoint.

FROM python:3.13-slim AS build
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.13-slim
ARG CPU=""
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[serve]"
RUN rpq warm-up ${CPU:+--cpu "$CPU"}
RUN install --directory --owner=10001 --group=10001 /data
USER 10001:10001
WORKDIR /data
ENTRYPOINT ["rpq"]
