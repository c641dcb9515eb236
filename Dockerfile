# hardmax with compiled kernels and CPU-only PyTorch.
#     docker build -t hardmax .
#     docker run --rm -it -p 8765:8765 hardmax hardmax play --host 0.0.0.0 --port 8765
FROM python:3.13-slim

RUN useradd --create-home hardmax
COPY --chown=hardmax . /home/hardmax/source
USER hardmax
WORKDIR /home/hardmax
ENV PATH=/home/hardmax/.local/bin:$PATH

# The wheels of PyTorch without CUDA have a separate index; the installation page names it.
ARG TORCH_INDEX=""
RUN if [ -n "$TORCH_INDEX" ]; then pip install --user --no-cache-dir --index-url "$TORCH_INDEX" torch; fi \
 && pip install --user --no-cache-dir -c source/constraints.txt "./source[play,text]" \
 && hardmax doctor
CMD ["hardmax", "--help"]
