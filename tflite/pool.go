package tflite

import (
	"sync"
	"sync/atomic"

	"optibfm/tflite/internal/kernel"
)

// worker is the memory that one goroutine of a search works in.
type worker struct {
	scratch scratch
	psi     kernel.Rows // [n, d], of one member
	metric  kernel.Rows // [n, d+1], R⁻ᵀψ and ψᵀẑ
	z       kernel.Rows // [batch, d]
	actions kernel.Rows // [batch, A]
	scores  []float32   // [batch]
	wake    chan struct{}
}

// stage names the work of a pool.
type stage int

const (
	stageLeading stage = iota // actor and leading member of all candidates
	stageOther                // another member of a batch
)

// pool divides the rows of a search between workers. The first is the caller;
// the others have goroutines that wait between the searches.
type pool struct {
	workers int // as configured
	all     []*worker
	rows    int // room of each worker
	running bool

	network *Network // of the work at hand
	stage   stage
	count   int
	chunk   int
	taken   atomic.Int64 // chunks
	done    sync.WaitGroup
	failure atomic.Pointer[error]
}

// chunksOf is how many rows a worker takes at once: all of them where it is
// alone, otherwise so few that a worker on a busy processor can leave work to
// the others, a multiple of what the kernels like.
func (p *pool) chunksOf(count int) int {
	if p.workers < 2 {
		return count
	}
	const tile = 6
	share := (count + 2*p.workers - 1) / (2 * p.workers)
	return (share + tile - 1) / tile * tile
}

// grow makes the workers and their room for chunks of count rows.
func (p *pool) grow(n *Network, count int) {
	rows := p.chunksOf(count)
	if rows <= p.rows {
		return
	}
	p.rows = rows
	for len(p.all) < p.workers {
		p.all = append(p.all, &worker{wake: make(chan struct{})})
	}
	d := n.Dims()
	for _, w := range p.all {
		w.scratch = newScratch(rows, n.weights.widest)
		w.psi, w.metric = kernel.NewRows(rows, d.Latent), kernel.NewRows(rows, d.Latent+1)
		w.z, w.actions = kernel.NewRows(batch, d.Latent), kernel.NewRows(batch, d.Action)
		w.scores = make([]float32, batch)
	}
}

// run does the work of a stage on count rows and returns the failure of a chunk
// that has one.
func (p *pool) run(n *Network, st stage, count int) error {
	p.network, p.stage, p.count, p.chunk = n, st, count, p.chunksOf(count)
	p.taken.Store(0)
	p.failure.Store(nil)
	helpers := min(len(p.all), (count+p.chunk-1)/p.chunk) - 1
	if helpers > 0 {
		p.start()
	}
	p.done.Add(helpers)
	for _, w := range p.all[1 : helpers+1] {
		w.wake <- struct{}{}
	}
	p.help(p.all[0])
	p.done.Wait()
	if err := p.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// start starts the goroutines where they do not run.
func (p *pool) start() {
	if p.running {
		return
	}
	p.running = true
	for _, w := range p.all[1:] {
		go func(wake <-chan struct{}) {
			for range wake {
				p.help(w)
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
	for _, w := range p.all[1:] {
		close(w.wake)
		w.wake = make(chan struct{})
	}
}

// help takes chunks until none is left.
func (p *pool) help(w *worker) {
	for {
		from := (int(p.taken.Add(1)) - 1) * p.chunk
		if from >= p.count {
			return
		}
		to := min(from+p.chunk, p.count)
		var err error
		if p.stage == stageLeading {
			err = p.network.leading(w, from, to)
		} else {
			err = p.network.other(w, from, to)
		}
		if err != nil {
			failure := err // allocated only here
			p.failure.CompareAndSwap(nil, &failure)
		}
	}
}
