"""How the updates of trainers run: as one CUDA graph, with compiled maps, or as they are written.

A CUDA graph replays all kernels of an update with one call. Small updates otherwise take as long as
Python needs to launch their kernels. Everything in Trainer.compute must therefore stay on the device:
Python reads no value, and its branches are those of the capture.
"""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from train_fb import Trainer

KINDS = ("compiled-graph", "graph", "compile", "eager")  # the compiler needs a minute or more at first
WARM_UP = 3  # updates before a capture, which allocate the states of the optimisers and of the libraries


class Engine:
    """Updates all trainers together. If a kind fails, the next of KINDS takes over.

    Several trainers share one graph, in which each has its own stream.
    """

    def __init__(self, trainers: Sequence["Trainer"], kind: str = "auto") -> None:
        self.trainers = trainers
        on_cuda = all(t.device.type == "cuda" and t.capturable for t in trainers)
        first = kind if kind != "auto" else "graph" if on_cuda else "eager"
        self.kinds = list(KINDS[KINDS.index(first) :])
        self.start()

    def start(self) -> None:
        """Prepares updates. It makes some, and must be called again if the trainers' data are replaced."""
        builders = {
            "compiled-graph": self.compile_and_capture, "graph": self.capture, "compile": self.compile,
            "eager": lambda: self.update_each
        }
        while True:
            self.kind = self.kinds[0]
            try:
                self.run: Callable[[], list[dict]] = builders[self.kind]()
                return
            except Exception as err:  # CUDA and the compiler raise many types
                if len(self.kinds) == 1:
                    raise
                print(f"engine: {self.kind}: {type(err).__name__}: {str(err)[:2000]}; continuing with {self.kinds[1]}",
                      file=sys.stderr, flush=True)
                self.kinds.pop(0)
                for trainer in self.trainers:
                    trainer.discard_compiled()

    def update(self) -> list[dict]:
        """Makes one update of each trainer. Returns their losses."""
        return self.run()

    def update_each(self) -> list[dict]:
        return [trainer.update() for trainer in self.trainers]

    def compile(self) -> Callable[[], list[dict]]:
        for trainer in self.trainers:
            trainer.compile()
        self.update_each()  # the compiler begins with the first call
        return self.update_each

    def compile_and_capture(self) -> Callable[[], list[dict]]:
        self.compile()
        return self.capture()

    def capture(self) -> Callable[[], list[dict]]:
        several = len(self.trainers) > 1
        streams = [torch.cuda.Stream() for _ in self.trainers]
        torch.cuda.synchronize()
        for trainer, stream in zip(self.trainers, streams):
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    trainer.update()
        torch.cuda.synchronize()
        graph, values = torch.cuda.CUDAGraph(), []
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            begun = torch.cuda.current_stream()
            for trainer, stream in zip(self.trainers, streams):
                if not several:
                    values.append(trainer.compute())
                    continue
                stream.wait_stream(begun)
                with torch.cuda.stream(stream):
                    values.append(trainer.compute())
            if several:
                for stream in streams:
                    begun.wait_stream(stream)

        def replay() -> list[dict]:
            graph.replay()
            for trainer in self.trainers:
                trainer.finish()
            return [dict(each) for each in values]

        replay()
        torch.cuda.synchronize()  # an error of the replay appears here, where another kind can take over
        return replay
