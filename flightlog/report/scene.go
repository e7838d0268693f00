package report

import (
	"cmp"
	"fmt"
	"slices"

	"optibfm/flightlog"
	"optibfm/hal"
)

const (
	maxChannelValues = 1 << 20  // in the page; a longer log has fewer rows
	maxPictureBytes  = 24 << 20 // in the page; of more pictures it has every second, third and so on
)

// dataChannels are the observations and the actions, float32: a row for every few ticks.
type dataChannels struct {
	Names  []string `json:"names"`
	Units  []string `json:"units"`
	Every  int      `json:"every"` // ticks from row to row
	Values packed   `json:"values"`
}

// dataPictures are the pictures beside the log.
type dataPictures struct {
	Time packed   `json:"time"` // float64: s since the first tick, increasing
	JPEG [][]byte `json:"jpeg"`
}

// channelRows are the observations and the actions of every few ticks.
type channelRows struct {
	every  int
	values []float32
}

func newChannelRows(ticks uint64, channels int) channelRows {
	return channelRows{every: int((ticks*uint64(channels))/maxChannelValues) + 1}
}

func (r *channelRows) add(pos int, obs, action []float32) {
	if pos%r.every == 0 {
		r.values = append(append(r.values, obs...), action...)
	}
}

func newDataChannels(m flightlog.Metadata, rows channelRows) dataChannels {
	d := dataChannels{Every: rows.every, Values: float32s(rows.values)}
	add := func(kind string, n int, channels []hal.Channel) {
		for i := range n {
			name, unit := fmt.Sprintf("%s %d", kind, i+1), ""
			if len(channels) > 0 {
				name, unit = channels[i].Name, channels[i].Unit
			}
			d.Names, d.Units = append(d.Names, name), append(d.Units, unit)
		}
	}
	add("observation", m.Shape.Obs, m.Robot.Obs)
	add("action", m.Shape.Action, m.Robot.Action)
	return d
}

// pictures are the pictures beside a log.
type pictures struct {
	all      []flightlog.Picture // increasing in time
	of       int                 // pictures that can be read
	problems []error
}

// readPictures reads the pictures beside a log, or every second, third and so on: at most limit
// bytes.
func readPictures(r *flightlog.Reader, limit int) (found pictures) {
	size := 0
	for p, err := range r.Pictures() {
		if err != nil {
			found.problems = append(found.problems, err)
			continue
		}
		found.of++
		size += len(p.JPEG)
	}
	every, n := size/limit+1, 0
	for p, err := range r.Pictures() {
		if err != nil {
			continue
		}
		if n%every == 0 {
			found.all = append(found.all, *p)
		}
		n++
	}
	slices.SortStableFunc(found.all, func(a, b flightlog.Picture) int { return cmp.Compare(a.At, b.At) })
	return found
}

func newDataPictures(c *collected) dataPictures {
	d := dataPictures{JPEG: [][]byte{}}
	var time []float64
	if c.ticks() > 0 {
		for _, p := range c.pictures.all {
			time = append(time, float64(p.At-c.columns.sense[0])/1e9)
			d.JPEG = append(d.JPEG, p.JPEG)
		}
	}
	d.Time = float64s(time)
	return d
}

// pictureNotices list what the page lacks of the pictures. They never affect the log.
func pictureNotices(p pictures) (found []notice) {
	if shown := len(p.all); shown < p.of {
		found = append(found, notice{"warn", fmt.Sprintf("The page holds %s of the %s pictures",
			count(uint64(shown)), count(uint64(p.of)))})
	}
	for _, err := range p.problems[:min(maxNotices, len(p.problems))] {
		found = append(found, notice{"warn", fmt.Sprintf("Pictures: %v. The log is not affected", err)})
	}
	return found
}
