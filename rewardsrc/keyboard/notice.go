package keyboard

import (
	"os"

	"optibfm/rewardsrc"
)

// Notice is something to show to the person at the keyboard.
type Notice = rewardsrc.Notice

// The events of a keyboard.
const (
	Wanted       = rewardsrc.Wanted
	Closed       = rewardsrc.Closed
	Acknowledged = rewardsrc.Acknowledged
	Refused      = rewardsrc.Refused
	Ignored      = rewardsrc.Ignored
	Lost         = rewardsrc.Lost
)

const keysHelp = "+ good, - bad, 0 neither, 1..9 graded, > better, < worse, g this is it, ? can't tell, u undo"

// printer writes notices to a terminal on its own goroutine. When the terminal
// stops reading, notices are lost, not delayed.
type printer struct {
	lines chan string
	quit  chan struct{} // closed to stop it
	done  chan struct{} // closed when it has stopped
	bell  bool
}

func startPrinter(out *os.File, bell bool) *printer {
	p := &printer{
		lines: make(chan string, 32),
		quit:  make(chan struct{}),
		done:  make(chan struct{}),
		bell:  bell,
	}
	go p.print(out)
	return p
}

func (p *printer) print(out *os.File) {
	defer close(p.done)
	for {
		select {
		case line := <-p.lines:
			// The reading side notices a closed terminal.
			_, _ = out.WriteString(line)
		case <-p.quit:
			return
		}
	}
}

func (p *printer) show(n Notice) {
	if n.Text == "" || n.Event == Closed && n.Request.State == rewardsrc.Answered {
		return
	}
	line := n.Text + "\n"
	if p.bell && n.Event == Wanted {
		line += "\a"
	}
	select {
	case p.lines <- line:
	default:
	}
}
