package eval

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// maxFailed is how many trials may fail before the rest is not tried.
const maxFailed = 3

// Runner runs the trials of a protocol.
type Runner struct {
	Protocol Protocol
	Shard    Shard // zero: all trials
	Worlds   Worlds
	Jobs     int    // trials at a time, each with a simulator of its own; at least 1
	Version  string // of the program, for the rows
	// Progress is told what happens; nil: nobody is. Its methods are called by one
	// goroutine at a time.
	Progress Progress
}

// Progress follows a run.
type Progress interface {
	// Begin tells the trials that are to be run, and how many were finished
	// before. The list must not be changed.
	Begin(todo []Trial, done int)
	// Finished is a trial that has ended, with its number of steps and the time
	// that it took.
	Finished(t Trial, steps int, took time.Duration)
}

// Trials lists the trials that are the runner's.
func (r Runner) Trials() []Trial { return r.Shard.of(r.Protocol.Trials()) }

// Run runs the trials that results does not have, and appends the rows of each as it
// ends. When ctx ends, what was not finished is dropped. A trial that fails does not
// keep the others from being run, but for maxFailed of them.
func (r Runner) Run(ctx context.Context, results *Results) error {
	hash, err := r.Protocol.Hash()
	if err != nil {
		return err
	}
	all := r.Trials()
	var todo []Trial
	for _, t := range all {
		if !results.Done(t) {
			todo = append(todo, t)
		}
	}
	lib := &library{}
	if err := r.check(ctx, lib, todo, results); err != nil {
		return err
	}
	if r.Progress != nil {
		r.Progress.Begin(todo, len(all)-len(todo))
	}
	return (&pool{runner: r, hash: hash, library: lib, results: results, todo: todo}).run(ctx)
}

// check finds out beforehand what would fail after hours.
func (r Runner) check(ctx context.Context, lib *library, todo []Trial, results *Results) error {
	checked := map[string]bool{}
	once := func(what string, check func() error) error {
		if checked[what] {
			return nil
		}
		checked[what] = true
		return check()
	}
	for _, t := range todo {
		err := once("robot "+t.Env, func() error { return r.Worlds.Check(ctx, t.Env) })
		if err == nil {
			err = once(fmt.Sprint(t.Method, t.needsStates(), t.stateKey()), func() error { return lib.check(t) })
		}
		if err == nil {
			err = once("model "+t.Model.Bundle, func() error { return lib.checkUnchanged(t, results) })
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", t.Env, t.Task, err)
		}
	}
	return nil
}

// pool is a run's workers and what they share.
type pool struct {
	runner  Runner
	hash    string
	library *library
	results *Results

	mu     sync.Mutex
	todo   []Trial
	failed []error
}

func (p *pool) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	for range min(max(1, p.runner.Jobs), max(1, len(p.todo))) {
		workers.Go(func() {
			if (&worker{pool: p}).work(ctx) != nil {
				cancel()
			}
		})
	}
	workers.Wait()
	if err := errors.Join(p.failed...); err != nil {
		return err
	}
	return ctx.Err()
}

// next takes a trial from the list.
func (p *pool) next() (t Trial, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.todo) == 0 {
		return t, false
	}
	t, p.todo = p.todo[0], p.todo[1:]
	return t, true
}

// finished keeps what a trial gave. An error says that the run is to end.
func (p *pool) finished(t Trial, rows []Row, took time.Duration, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failed = append(p.failed, fmt.Errorf("trial %s: %w", t.ID(), err))
		if len(p.failed) >= maxFailed {
			return err
		}
		return nil
	}
	if err := p.results.Append(rows); err != nil {
		p.failed = append(p.failed, err)
		return err
	}
	if p.runner.Progress != nil {
		p.runner.Progress.Finished(t, int(rows[len(rows)-1].X), took)
	}
	return nil
}

// fail keeps an error without keeping the other workers from going on.
func (p *pool) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = append(p.failed, err)
}

// worker runs one trial after the other. It keeps its simulator for the trials of
// the same robot and task.
type worker struct {
	*pool
	robot     Simulator
	env, task string
}

// work runs trials until there are none. An error says that the run is to end.
func (w *worker) work(ctx context.Context) error {
	err := w.trials(ctx)
	// Of a simulator that was cut off nobody expects that it ends in order.
	if closing := w.close(); closing != nil && ctx.Err() == nil {
		w.fail(closing)
	}
	return err
}

func (w *worker) trials(ctx context.Context) error {
	for ctx.Err() == nil {
		t, ok := w.next()
		if !ok {
			return nil
		}
		started := time.Now()
		rows, err := w.trial(ctx, t)
		if ctx.Err() != nil {
			return ctx.Err() // whatever else: it was cut off
		}
		if err := w.finished(t, rows, time.Since(started), err); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (w *worker) trial(ctx context.Context, t Trial) ([]Row, error) {
	if err := w.open(ctx, t); err != nil {
		return nil, err
	}
	bundle, err := w.library.model(t.Model.Bundle)
	if err != nil {
		return nil, err
	}
	base := Row{
		Experiment: w.runner.Protocol.Experiment, Env: t.Env, Task: t.Task, Bundle: t.Model.Bundle, BFMSeed: t.Model.Seed,
		Method: t.Method, Params: t.Params, Trial: t.Trial, Seed: t.Seed,
		Version: w.runner.Version, ModelHash: bundle.Hash, ProtocolHash: w.hash,
	}
	rows, err := runTrial(ctx, t, w.runner.Protocol.Run, w.library, w.robot, base)
	if err != nil { // nobody knows what state it is in
		err = errors.Join(err, w.close())
	}
	return rows, err
}

func (w *worker) open(ctx context.Context, t Trial) (err error) {
	if w.robot != nil && w.env == t.Env && w.task == t.Task {
		return nil
	}
	if err := w.close(); err != nil {
		return err
	}
	w.env, w.task = t.Env, t.Task
	w.robot, err = w.runner.Worlds.Open(ctx, t.Env, t.Task)
	if err != nil {
		w.robot = nil
	}
	return err
}

func (w *worker) close() error {
	if w.robot == nil {
		return nil
	}
	robot := w.robot
	w.robot = nil
	return closeSimulator(robot)
}
