# SPDX-License-Identifier: Apache-2.0
# Python with the packages that an example wants, for docker/compose.yaml.
ARG BASE=python:3.13-slim
FROM ${BASE}
ARG PACKAGES=numpy
RUN pip install --no-cache-dir --disable-pip-version-check --root-user-action=ignore ${PACKAGES}
COPY examples /examples
USER 65532:65532
