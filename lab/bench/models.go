package bench

import (
	"errors"
	"fmt"
	"runtime"

	"optibfm/configs"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// Open returns the options of a configuration, with its models opened as a run opens
// them. It does not replace a missing TensorFlow by the native networks. The caller
// calls release after the measurement.
func Open(f configs.File, ticks int) (o Options, release func() error, err error) {
	model, err := setup.OpenModel(f.Model.Bundle)
	if err != nil {
		return o, nil, fmt.Errorf("bench: model.bundle: %w", err)
	}
	return open(f, model, ticks)
}

func open(f configs.File, model setup.Model, ticks int) (o Options, release func() error, err error) {
	f.Loop.Posture = rtloop.Strict // a missing backend is an error
	o = Options{Controller: f.Controller, Period: f.Loop.Period(), Ticks: ticks}
	if err := setup.SetBasis(&o.Controller, model); err != nil {
		return o, nil, err
	}
	o.Name = model.Title()
	if native, ok := model.(setup.NativeModel); ok {
		flops := native.Architecture.FLOPs()
		// A weight is four bytes and takes part in one multiply-add, which is two operations.
		o.Weights = 2 * (flops.Phi + flops.Search(1, native.Dims().Ensemble))
	}
	if o.Control, err = model.Evaluator(f); err != nil {
		return o, nil, fmt.Errorf("bench: model.bundle: %w", err)
	}
	if o.Planner, _, err = model.Searcher(f, runtime.GOMAXPROCS(0)); err != nil {
		return o, nil, errors.Join(fmt.Errorf("bench: %w", err), setup.CloseModels(o.Control))
	}
	return o, func() error { return setup.CloseModels(o.Control, o.Planner) }, nil
}
