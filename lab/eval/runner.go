package eval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// maxFailed is the number of failed trials that ends a run.
const maxFailed = 3

// Runner runs the trials of a protocol.
type Runner struct {
	Protocol Protocol
	Shard    Shard // zero: all trials
	Worlds   Worlds
	Jobs     int    // trials at a time, each with its own simulator; at least 1
	Version  string // of the program, for the rows
	// Progress, if not nil, follows the run. Its methods are never called concurrently.
	Progress Progress
}

// Progress follows a run.
type Progress interface {
	// Begin receives the trials to run, which it must not change, and the number of finished ones.
	Begin(todo []Trial, done int)
	// Finished receives a finished trial, its number of steps and its duration.
	Finished(t Trial, steps int, took time.Duration)
}

// Trials lists the trials of the runner's shard.
func (r Runner) Trials() []Trial { return r.Shard.of(r.Protocol.Trials()) }

// Hash identifies the experiment as run: Protocol.Hash with the task priors of the models, where a
// trial of any shard uses them.
func (r Runner) Hash() (string, error) {
	hash, err := r.Protocol.Hash()
	if err != nil {
		return "", err
	}
	lib, priors := &library{}, map[string]string{}
	for _, t := range r.Protocol.Trials() {
		bundle := t.Model.Bundle
		if _, known := priors[bundle]; known || !t.usesPrior() {
			continue
		}
		b, err := lib.model(bundle)
		if err != nil {
			return "", err
		}
		priors[bundle] = ""
		if b.Prior != nil {
			priors[bundle] = b.Prior.Hash
			hash += " " + b.Prior.Hash
		}
	}
	if !strings.Contains(hash, " ") {
		return hash, nil
	}
	sum := sha256.Sum256([]byte(hash))
	return hex.EncodeToString(sum[:]), nil
}

// Run runs the trials that results does not have and appends the rows of each when it ends. When
// ctx ends, Run drops unfinished trials. After a failed trial the others are run, unless maxFailed
// failed.
func (r Runner) Run(ctx context.Context, results *Results) error {
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
	return (&pool{runner: r, hash: results.run, library: lib, results: results, todo: todo}).run(ctx)
}

// check finds, before any trial runs, what would fail hours later.
func (r Runner) check(ctx context.Context, lib *library, todo []Trial, results *Results) error {
	checked := map[string]bool{}
	once := func(key string, check func() error) error {
		if checked[key] {
			return nil
		}
		checked[key] = true
		return check()
	}
	for _, t := range todo {
		err := once("robot "+t.Env, func() error { return r.Worlds.Check(ctx, t.Env) })
		if err == nil {
			err = once(fmt.Sprint(t.Method, t.neededStates(), t.stateKey()), func() error { return lib.check(t) })
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

// pool holds the state that the workers of a run share.
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

// next removes a trial from the list.
func (p *pool) next() (t Trial, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.todo) == 0 {
		return t, false
	}
	t, p.todo = p.todo[0], p.todo[1:]
	return t, true
}

// finished appends the rows of a trial or notes its error. An error ends the run.
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

// fail notes an error without ending the other workers.
func (p *pool) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = append(p.failed, err)
}

// worker runs one trial after the other. It keeps its simulator for trials of the same robot and
// task.
type worker struct {
	*pool
	robot     Simulator
	env, task string
}

// work runs trials until the list is empty. An error ends the run.
func (w *worker) work(ctx context.Context) error {
	err := w.trials(ctx)
	// A simulator whose context ended may fail to close.
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
			return ctx.Err() // the trial is incomplete
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
		Experiment: w.runner.Protocol.Experiment, Env: t.Env, Task: t.Task,
		Bundle: t.Model.Bundle, BFMSeed: t.Model.Seed,
		Method: t.Method, Params: t.Params, Trial: t.Trial, Seed: t.Seed,
		Version: w.runner.Version, ModelHash: bundle.Hash, ProtocolHash: w.hash,
	}
	rows, err := runTrial(ctx, t, w.runner.Protocol.Run, w.library, w.robot, base)
	if err != nil { // the state of the simulator is unknown
		err = errors.Join(err, w.close())
	}
	return rows, err
}

func (w *worker) open(ctx context.Context, t Trial) (err error) {
	if w.robot != nil && w.env == t.Env && w.task == t.simulated() {
		return nil
	}
	if err := w.close(); err != nil {
		return err
	}
	w.env, w.task = t.Env, t.simulated()
	w.robot, err = w.runner.Worlds.Open(ctx, t.Env, w.task)
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
