package tflite

import (
	"sync"
	"sync/atomic"

	"optibfm/tflite/internal/kernel"
)

// worker is the memory of one goroutine of a search.
type worker struct {
	scratch  scratch
	psi      kernel.Rows // [n, d], of one member
	whitened kernel.Rows // [n, d+1], R⁻ᵀψ and ψᵀẑ
	z        kernel.Rows // [batch, d]
	actions  kernel.Rows // [batch, A]
	scores   []float32   // [batch]
	wake     chan struct{}
}

// stage names the work of a pool.
type stage int

const (
	stageLeading stage = iota // the actor and the leading member, for all candidates
	stageOther                // another member, for a batch
)

// pool divides the rows of a search between workers. The caller is the first
// worker; the others have goroutines that wait between the searches.
type pool struct {
	limit   int // of the number of workers
	workers []*worker
	rows    int // capacity of each worker
	running bool

	// The present work.
	network *Network
	stage   stage
	count   int
	chunk   int
	taken   atomic.Int64 // chunks
	done    sync.WaitGroup
	failure atomic.Pointer[error]
}

// chunkSize is the number of rows that a worker processes at once: all of them
// without other workers, otherwise a multiple of the kernels' tiles that makes about
// two chunks for each worker, so that others can take over from a slow one.
func (p *pool) chunkSize(count int) int {
	if p.limit < 2 {
		return count
	}
	const tile = 6
	share := (count + 2*p.limit - 1) / (2 * p.limit)
	return (share + tile - 1) / tile * tile
}

// grow allocates the workers' memory for a search of count rows.
func (p *pool) grow(n *Network, count int) {
	rows := p.chunkSize(count)
	if rows <= p.rows {
		return
	}
	p.rows = rows
	for len(p.workers) < p.limit {
		p.workers = append(p.workers, &worker{wake: make(chan struct{})})
	}
	d := n.Dims()
	for _, w := range p.workers {
		w.scratch = newScratch(rows, n.weights)
		w.psi, w.whitened = kernel.NewRows(rows, d.Latent), kernel.NewRows(rows, d.Latent+1)
		w.z, w.actions = kernel.NewRows(batch, d.Latent), kernel.NewRows(batch, d.Action)
		w.scores = make([]float32, batch)
	}
}

// run does the work of a stage on count rows and returns the error of one of the
// chunks, if any.
func (p *pool) run(n *Network, st stage, count int) error {
	p.network, p.stage, p.count, p.chunk = n, st, count, p.chunkSize(count)
	p.taken.Store(0)
	p.failure.Store(nil)
	helpers := min(len(p.workers), (count+p.chunk-1)/p.chunk) - 1
	if helpers > 0 {
		p.start()
	}
	p.done.Add(helpers)
	for _, w := range p.workers[1 : helpers+1] {
		w.wake <- struct{}{}
	}
	p.processChunks(p.workers[0])
	p.done.Wait()
	if err := p.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// start starts the goroutines if they are not running.
func (p *pool) start() {
	if p.running {
		return
	}
	p.running = true
	for _, w := range p.workers[1:] {
		go func(wake <-chan struct{}) {
			for range wake {
				p.processChunks(w)
				p.done.Done()
			}
		}(w.wake)
	}
}

// close ends the goroutines; a later search starts them again.
func (p *pool) close() {
	if !p.running {
		return
	}
	p.running = false
	for _, w := range p.workers[1:] {
		close(w.wake)
		w.wake = make(chan struct{})
	}
}

// processChunks processes chunks until none is left.
func (p *pool) processChunks(w *worker) {
	for {
		from := (int(p.taken.Add(1)) - 1) * p.chunk
		if from >= p.count {
			return
		}
		to := min(from+p.chunk, p.count)
		var err error
		if p.stage == stageLeading {
			err = p.network.evaluateLeading(w, from, to)
		} else {
			err = p.network.evaluateOther(w, from, to)
		}
		if err != nil {
			failure := err // allocates only here
			p.failure.CompareAndSwap(nil, &failure)
		}
	}
}
