package web

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/internal/browsertest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/frames"
)

var (
	pictures = flag.String("pictures", "", "folder for screenshots of the console")
	live     = flag.String("live", "", "address of a run's console, with its code, to take docs/console.png of")
)

var (
	phone  = image.Pt(390, 844)
	laptop = image.Pt(1280, 800)

	smallPhones = []image.Point{{320, 568}, {360, 640}, {375, 667}, {390, 660}}
)

// openPage opens a tab of a browser that accepts any certificate.
func openPage(t testing.TB, at image.Point) *browsertest.Page {
	t.Helper()
	return browsertest.Shared(t).Page(t, at)
}

// openConsole opens the console and waits until it is connected.
func openConsole(t testing.TB, d *drive, at image.Point) *browsertest.Page {
	t.Helper()
	p := openPage(t, at)
	p.Open(d.Pairing().URL)
	p.UntilText("link", `\d ms`)
	return p
}

// picture writes a screenshot if the flag asks for it.
func picture(t testing.TB, p *browsertest.Page, name string) {
	t.Helper()
	if *pictures == "" {
		return
	}
	fatal.If(t, os.WriteFile(filepath.Join(*pictures, name+".png"), p.Screenshot(), 0o644))
}

// drive plays a robot and its recorder: it shows a view 20 times a second,
// acknowledges labels and counts them, until the test ends or hands over.
type drive struct {
	*Server
	labels chan rewardsrc.Label
	do     chan func()
	quit   chan struct{}
	done   chan struct{}
	fault  string     // of the robot; of the goroutine
	at     *[4]Number // pose; of the goroutine
}

func startDrive(t testing.TB, s *Server) *drive {
	d := &drive{
		Server: s, labels: make(chan rewardsrc.Label, 64),
		do: make(chan func()), quit: make(chan struct{}), done: make(chan struct{}),
	}
	go d.run()
	t.Cleanup(d.end)
	return d
}

func (d *drive) end() {
	select {
	case <-d.quit:
	default:
		close(d.quit)
	}
	<-d.done
}

func (d *drive) run() {
	defer close(d.done)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	v := View{
		Tick: 50 * 43, ElapsedS: 43, Mode: "armed", HasZ: true,
		Labels: 17, Asked: 14, Answered: 12, Expired: 2, Kappa: 0.15,
		Known: "Better than guessing, reaches 99–100 %.", KnownPart: 0.4, // the longest text after the first labels
	}
	for i := range 300 { // a past for the curves
		d.mu.Lock()
		w := scene(v, float64(i-300)/5)
		d.history.add(&w)
		d.mu.Unlock()
	}
	var id uint64
	for started, n := time.Now(), 0; ; n++ {
		select {
		case <-d.quit:
			return
		case f := <-d.do:
			f()
		case <-ticker.C:
		}
		if n%10 == 0 {
			view := scene(v, time.Since(started).Seconds())
			view.Fault, view.Pose = d.fault, d.at
			d.Show(view)
		}
		var one [1]rewardsrc.Label
		for d.Poll(one[:]) == 1 {
			if d.fault != "" && one[0].Kind == rewardsrc.Value && one[0].Request == 0 {
				d.Refuse(one[0], errors.New("the robot was stopped"))
				continue
			}
			id++
			one[0].ID = id
			d.Acknowledge(one[0])
			d.labels <- one[0]
			d.Settle(id, true, "")
			if one[0].Kind == rewardsrc.Value {
				v.Labels++
			}
			if one[0].Request != 0 {
				v.Answered++
			}
		}
	}
}

// scene returns the view of a run t seconds after v.
func scene(v View, t float64) View {
	at := 60 + t
	v.Tick += uint64(50 * at)
	v.ElapsedS = Number(at)
	v.Labels -= uint64(max(0, 17-math.Floor(at/3.5)))
	if t < 0 {
		v.Asked = uint64(at / 4.2)
		v.Labels = uint64(at / 3.5)
	}
	decay := math.Exp(-at / 25)
	v.DGap = Number(0.05 + 0.5*decay*(1+0.8*math.Sin(at*1.7)) + 0.1*math.Abs(math.Sin(at*0.6)))
	v.Information = Number(14 * (1 - decay))
	v.BeliefNorm = Number(2.4 * (1 - decay))
	v.Reward = Number((1-decay)*0.8 + 0.15*math.Sin(at*0.9))
	v.Estimate = v.Reward + Number(0.3*decay*math.Cos(at)+0.04*math.Sin(at*3))
	v.Uncertainty = Number(0.2 + decay)
	v.Return = Number(at * 0.6)
	v.PerMinute = 12
	v.LateMS = Number(0.06 + 0.05*math.Abs(math.Sin(at*7)*math.Sin(at*2.3)))
	v.LateP99MS, v.LateMaxMS, v.BusyP99MS = 0.11, 0.34, 0.42
	v.ZAgeMS = Number(60 + 40*math.Sin(at*5))
	return v
}

// ask opens or closes a request from the recorder's goroutine.
func (d *drive) ask(id uint64, lasts time.Duration) {
	d.do <- func() {
		now := rewardsrc.Monotonic()
		d.Ask(rewardsrc.Request{
			ID: id, Tick: 100, At: now - 2e8, Until: 100 + uint64((lasts+2e8)/d.period),
			DGap: 0.31, State: rewardsrc.Open,
		})
	}
}

// pose puts the robot at a position in its arena.
func (d *drive) pose(x, y float64) { d.do <- func() { d.at = &[4]Number{Number(x), Number(y), 1, 0} } }

// stops makes the robot stop by a fault; "" is its reset.
func (d *drive) stops(fault string) { d.do <- func() { d.fault = fault } }

func (d *drive) next(t testing.TB) rewardsrc.Label {
	t.Helper()
	return receive(t, d.labels)
}

// receive waits for what the page sends.
func receive[T any](t testing.TB, from chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(soon):
		t.Fatalf("no %T came", v)
	}
	return v
}

func openForBrowser(t testing.TB, change func(*Config, *Options)) (*drive, chan string) {
	stopped := make(chan string, 16)
	s := open(t, func(c *Config, o *Options) {
		o.About = About{
			Robot: "rover", Task: "corner", Strategy: "ucb β 0.1", Program: "v0",
			PeriodMS: 20, MaxAgeMS: 500, Record: true,
		}
		o.Stop = func(by string, _ bool) { stopped <- by }
		c.RefractoryMS, c.MaxLateS = 250, 60 // a busy computer delays presses
		if change != nil {
			change(c, o)
		}
	})
	return startDrive(t, s), stopped
}

func TestPage_PairLabelUndoStop(t *testing.T) {
	d, stopped := openForBrowser(t, nil)
	p := openPage(t, phone)
	p.Open(d.Pairing().URL)
	p.Until("document.body?.dataset.view", "console")
	p.Until("location.hash", "^$") // the code is not kept in the address
	p.UntilText("link", `\d ms`)
	p.UntilText("robot", "rover")
	picture(t, p, "phone")

	labelOnPage(t, d, p)

	p.Record("banner")
	p.Tap("stop")
	if by := receive(t, stopped); by != "device 1" {
		t.Errorf("stopped by %q", by)
	}
	p.UntilShown("banner", "STOP was pressed on device 1")
	p.UntilText("banner", "the halt is NOT confirmed") // while the control process says nothing

	labelStoppedRobot(t, d, p)

	p.Record("banner")
	p.Tap("stop")
	p.UntilShown("banner", "STOP was pressed on device 1")
	d.end()
	d.End(Ending{
		Why: "STOP was pressed on device 1", Failed: true,
		Keep: "./optibfm task save NAME --config walker-human --from logs/20260101-120000-dm_control_walker.mcap",
	})
	fatal.If(t, d.Halt())
	p.UntilText("banner", "The run is over")
	p.UntilText("stop-text", "The run is over")
	p.UntilText("detail", "task save NAME .* --from logs/")
	p.Until("document.getElementById('banner').dataset.tone", "bad")
	p.UntilText("armed", "check it")
	picture(t, p, "phone-stopped")
}

// labelOnPage answers requests, labels unasked and takes a label back.
func labelOnPage(t *testing.T, d *drive, p *browsertest.Page) {
	t.Helper()
	d.ask(1, 60*time.Second)
	p.UntilText("question", `How was it \d+\.\d s ago`)
	time.Sleep(300 * time.Millisecond)
	picture(t, p, "phone-asked")
	p.Tap("good")
	if l := d.next(t); l.Request != 1 || l.Value != 1 || rewardsrc.Monotonic()-l.At > int64(60*time.Second) {
		t.Errorf("label %+v, want +1 on request 1", l)
	}
	p.UntilText("presses", `Good\s+counted · \d+ ms`)
	p.UntilText("question", "No question")
	gradeOnPage(t, d, p)

	p.Tap("bad")
	if l := d.next(t); l.Request != 0 || l.Value != -1 {
		t.Errorf("label %+v, want an unasked -1", l)
	}
	p.Tap("undo")
	if l := d.next(t); l.Kind != rewardsrc.Undo {
		t.Errorf("label %+v, want an undo", l)
	}
	compareOnPage(t, d, p)
	p.Tap("cant")
	p.UntilText("presses", `nothing is asked\s+does NOT count`)

	d.ask(2, 60*time.Second)
	p.UntilText("question", "How was it")
	time.Sleep(200 * time.Millisecond)
	p.Tap("cant")
	if l := d.next(t); l.Kind != rewardsrc.CantTell || l.Request != 2 {
		t.Errorf("label %+v, want can't tell on request 2", l)
	}
}

// gradeOnPage answers requests with rewards between bad and good, with the finger and with the
// keyboard.
func gradeOnPage(t *testing.T, d *drive, p *browsertest.Page) {
	t.Helper()
	for i, c := range []struct {
		id, key, words string
		want           float64
	}{
		{"rather-bad", "", "Rather bad", -0.5},
		{"so-so", "", "So-so", 0},
		{"rather-good", "", "Rather good", 0.5},
		{"", "7", "Rather good", 0.5},
		{"", "8", `Reward 0\.75`, 0.75},
	} {
		request := uint64(20 + i)
		d.ask(request, 60*time.Second)
		p.UntilText("question", "How was it")
		time.Sleep(300 * time.Millisecond) // reaction_ms, refractory_ms
		if c.id != "" {
			p.Tap(c.id)
		} else {
			p.Key(c.key)
		}
		if l := d.next(t); l.Request != request || l.Value != c.want {
			t.Errorf("label %+v, want %g on request %d", l, c.want, request)
		}
		p.UntilText("presses", "^"+c.words+`\s+counted`)
		p.UntilText("question", "No question")
	}
}

// compareOnPage presses better, worse and goal while a request is open, with the finger and with
// the keyboard.
func compareOnPage(t *testing.T, d *drive, p *browsertest.Page) {
	t.Helper()
	d.ask(5, 60*time.Second)
	p.UntilText("question", "How was it")
	for _, c := range []struct {
		id, key, words string
		want           rewardsrc.Label
	}{
		{"better", ">", "Better", rewardsrc.Label{Kind: rewardsrc.Comparison, Value: 0.5}},
		{"worse", "<", "Worse", rewardsrc.Label{Kind: rewardsrc.Comparison, Value: -0.5}},
		{"goal", "g", "This is it", rewardsrc.Label{Kind: rewardsrc.Goal, Value: 1}},
	} {
		for _, press := range []func(){func() { p.Tap(c.id) }, func() { p.Key(c.key) }} {
			press()
			if l := d.next(t); l.Kind != c.want.Kind || l.Value != c.want.Value || l.Request != 0 {
				t.Errorf("%s: label %+v, want %+v", c.id, l, c.want)
			}
			p.UntilText("presses", "^"+c.words+`\s+counted · \d+ ms`)
			time.Sleep(300 * time.Millisecond) // the refractory time
		}
	}
	p.Key("+")
	if l := d.next(t); l.Request != 5 || l.Value != 1 {
		t.Errorf("label %+v, want +1 on request 5", l)
	}
	p.UntilText("question", "No question")
}

// labelStoppedRobot checks which presses count while the robot is stopped, and
// after its reset.
func labelStoppedRobot(t *testing.T, d *drive, p *browsertest.Page) {
	t.Helper()
	d.stops("operator's stop") // and holds it, until it is reset
	p.UntilText("banner", "The robot is stopped: operator's stop")
	p.UntilText("stop-text", "^Stopped$")
	p.UntilText("detail", "The robot is stopped: presses do not count. Undo works.")
	p.Tap("good")
	p.UntilText("presses", `the robot was stopped\s+does NOT count`)
	p.Tap("undo")
	if l := d.next(t); l.Kind != rewardsrc.Undo {
		t.Errorf("label %+v while the robot is stopped, want an undo", l)
	}
	d.ask(3, 60*time.Second) // about a moment before the stop
	p.UntilText("question", "How was it")
	p.UntilText("detail", "only the answer to this question counts")
	time.Sleep(200 * time.Millisecond)
	p.Tap("bad")
	if l := d.next(t); l.Request != 3 || l.Value != -1 {
		t.Errorf("label %+v, want -1 on request 3", l)
	}
	d.stops("")
	p.UntilText("stop-text", "^STOP$")
	p.Until("document.getElementById('banner').hidden", "true")
	p.Tap("good")
	if l := d.next(t); l.Kind != rewardsrc.Value {
		t.Errorf("label %+v after a reset, want good", l)
	}
}

func TestPage_ShowsLostConnection(t *testing.T) {
	d, _ := openForBrowser(t, nil)
	p := openConsole(t, d, phone)
	d.setClosing(true) // refuses all browsers
	for _, conn := range d.connections() {
		_ = conn.transport.(socket).conn.CloseNow()
	}
	p.UntilText("banner", "Connection lost")
	p.Tap("good")
	p.UntilText("presses", `Good · not connected\s+LOST`)
	p.UntilText("banner", "open the one on its terminal") // its address may have changed
	picture(t, p, "phone-lost")
	d.setClosing(false)
	p.UntilText("link", `\d ms`)
	p.Until("document.getElementById('banner').hidden", "true")
	select {
	case l := <-d.labels:
		t.Errorf("the lost press came late: %+v", l)
	case <-time.After(500 * time.Millisecond):
	}
	p.Tap("good")
	d.next(t)
}

// Another operator may have reset and armed a robot that the page saw stopped.
func TestPage_DoesNotSayStoppedWithoutConnection(t *testing.T) {
	d, stopped := openForBrowser(t, nil)
	p := openConsole(t, d, phone)
	d.stops("operator stop")
	p.UntilText("banner", "The robot is stopped")
	d.setClosing(true)
	for _, conn := range d.connections() {
		_ = conn.transport.(socket).conn.CloseNow()
	}
	p.UntilText("banner", "Connection lost")
	p.UntilText("armed", "unknown")
	p.UntilText("stop-text", "^STOP$")
	p.Tap("stop")
	p.UntilText("banner", "STOP is NOT confirmed")
	receive(t, stopped) // on its second path
}

// Safari refuses the WebSocket of a page whose certificate it does not trust.
func TestPage_UsesAnEventStreamWhereTheSocketIsRefused(t *testing.T) {
	pictures := newAlbum()
	d, stopped := openForBrowser(t, func(_ *Config, o *Options) { o.Pictures = pictures })
	refused := make(chan string, 64)
	outer := d.behind(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Upgrade") == "" {
			return false
		}
		refused <- r.URL.Path
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	outer.Start()
	p := openPage(t, phone)
	p.Open(outer.URL + "/#" + token(d.Pairing().URL))
	p.UntilText("link", `\d ms`)
	if path := receive(t, refused); path != "/socket" {
		t.Errorf("the browser tried %s first", path)
	}
	p.Tap("menu")
	p.UntilText("facts", "event stream")
	picture(t, p, "phone-stream")
	p.Tap("close")
	pictures.add(shot(t, color.White))
	p.Until("document.getElementById('picture').width", "^64$")
	labelOnPage(t, d, p)
	p.Record("banner")
	p.Tap("stop")
	for range 2 { // a message and /stop
		if by := receive(t, stopped); by != "device 1" {
			t.Errorf("stopped by %q", by)
		}
	}
	p.UntilShown("banner", "STOP was pressed on device 1")

	for len(refused) > 0 {
		<-refused
	}
	outer.CloseClientConnections()
	receive(t, refused) // the page tries the socket again
	p.UntilText("link", `\d ms`)
	d.end()
	d.End(Ending{Why: "a fault", Failed: true})
	fatal.If(t, d.Halt())
	p.UntilText("banner", "The run is over: a fault")
}

func (s *Server) setClosing(closing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = closing
}

func (s *Server) connections() (all []*client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.clients {
		all = append(all, c)
	}
	return all
}

func TestPage_SecondDeviceTakesOver(t *testing.T) {
	d, _ := openForBrowser(t, func(c *Config, _ *Options) { c.TLS = TLSSelfSigned })
	stranger := openPage(t, phone)
	stranger.Open(base(d.Server) + "/#wrong")
	stranger.UntilText("pair-error", "not valid")
	picture(t, stranger, "phone-pairing")

	first := openConsole(t, d, laptop)
	second := openPage(t, phone)
	second.Open(d.Pairing().URL)
	second.UntilText("seat-text", "device 1 labels")
	second.Tap("good")
	second.UntilText("presses", `another device labels\s+does NOT count`)
	second.Tap("take")
	first.UntilText("seat-text", "device 2 wants to label")
	picture(t, first, "laptop-asked-to-hand-over")
	first.Tap("give")
	first.UntilText("seat-text", "device 2 labels")
	second.Until("document.getElementById('seat').hidden", "true")
	second.Tap("good")
	d.next(t)
}

func TestPage_FitsScreens(t *testing.T) {
	d, _ := openForBrowser(t, func(_ *Config, o *Options) { o.Tasks = &shelf{} })
	p := openConsole(t, d, laptop)
	d.ask(1, 30*time.Second)
	p.UntilText("question", "How was it")
	for _, at := range []image.Point{phone, laptop} {
		for _, theme := range []string{"dark", "light"} {
			p.Resize(at)
			p.Theme(theme)
			time.Sleep(400 * time.Millisecond)
			picture(t, p, fmt.Sprintf("%d-%s", at.X, theme))
		}
		if got := p.Eval("document.documentElement.scrollWidth"); got != fmt.Sprint(at.X) {
			t.Errorf("at %d px the page is %s px wide: %s", at.X, got, p.Eval(`
				[...document.querySelectorAll('body *')].filter((e) =>
					e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + '#' + e.id)`))
		}
		for _, id := range []string{"good", "bad", "worse", "better", "goal", "cant", "undo", "stop", "menu"} {
			box := p.Eval(`(() => {
				const r = document.getElementById('` + id + `').getBoundingClientRect();
				return r.width >= 54 && r.height >= 64 && r.top >= 0 &&
					r.bottom <= innerHeight && r.right <= innerWidth;
			})()`)
			if box != "true" {
				t.Errorf("at %dx%d the button %s is smaller than 54 x 64 px or out of sight", at.X, at.Y, id)
			}
		}
	}
	for at, ids := range map[image.Point][]string{phone: {"task-menu"}, laptop: {"task-new", "task-save", "task-load"}} {
		p.Resize(at)
		for _, id := range ids {
			if p.Eval(inSight+fmt.Sprintf("('%s', 54, 64)", id)) != "true" {
				t.Errorf("at %d px the button %s is out of sight", at.X, id)
			}
		}
	}
	for _, id := range []string{"worse", "better", "goal"} {
		if smaller := p.Eval(`(() => {
			const [a, b] = ['` + id + `', 'good'].map((id) => document.getElementById(id).getBoundingClientRect());
			return a.width * a.height < b.width * b.height;
		})()`); smaller != "true" {
			t.Errorf("the button %s is not smaller than good", id)
		}
	}
	unnamed := p.Eval(`[...document.querySelectorAll('button, input, canvas, [role=img]')].filter((e) =>
		!(e.ariaLabel || e.innerText || e.labels?.length || e.closest('[hidden], dialog'))).map((e) => e.id)`)
	if unnamed != "" {
		t.Errorf("a screen reader has no name for: %s", unnamed)
	}
	p.Tap("menu")
	p.Until("document.getElementById('settings').open", "true")
	p.Tap("invite-watch")
	p.UntilText("invite-url", base(d.Server)+"/#")
	picture(t, p, "laptop-settings")
}

// inSight evaluates to whether all of an element of at least so many pixels is on the screen and on
// top.
const inSight = `((id, width, height) => {
	const e = document.getElementById(id), r = e.getBoundingClientRect();
	const whole = e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight;
	const onTop = [0.1, 0.5, 0.9].every((x) => [0.1, 0.5, 0.9].every((y) => {
		return e.contains(document.elementFromPoint(r.left + x * r.width, r.top + y * r.height));
	}));
	return whole && onTop && r.width >= width && r.height >= height && r.top >= 0 && r.bottom <= innerHeight;
})`

// shownHeight evaluates to the height of the picture that a canvas shows, without the margins
// around it.
const shownHeight = `((id) => {
	const c = document.getElementById(id), r = c.getBoundingClientRect();
	return Math.min(r.height, r.width * c.height / c.width, innerHeight - r.top);
})`

// bright is an album without a problem.
type bright struct{ *album }

func (bright) Problem() string { return "" }

func TestPage_SmallPhonesShowThePictureWhileAsking(t *testing.T) {
	album := newAlbum()
	d, _ := openForBrowser(t, func(_ *Config, o *Options) { o.Pictures, o.Tasks = bright{album}, &shelf{} })
	p := openConsole(t, d, phone)
	request := uint64(0)
	for _, s := range smallPhones {
		p.Resize(s)
		for _, asks := range []bool{false, true} {
			at := "picture"
			album.add(shot(t, color.RGBA{0x30, 0x60, 0x90, 255}))
			if request++; asks {
				d.ask(request, 10*time.Minute)
				at = "moment"
			} else {
				d.do <- func() { d.Ask(rewardsrc.Request{ID: request - 1, State: rewardsrc.Expired}) }
			}
			p.Until("document.getElementById('then').hidden", fmt.Sprint(!asks))
			p.Until("document.getElementById('"+at+"').width", "^64$") // it is drawn
			for _, theme := range []string{"light", "dark"} {
				p.Theme(theme)
				picture(t, p, fmt.Sprintf("small-%dx%d-%s-%v", s.X, s.Y, theme, asks))
			}
			where := fmt.Sprintf("%d x %d, asks %v", s.X, s.Y, asks)
			if share := p.Eval(shownHeight + "('" + at + "') / innerHeight >= 0.4"); share != "true" {
				t.Errorf("%s: the picture has %s of the height", where, p.Eval(shownHeight+"('"+at+"') / innerHeight"))
			}
			for id, height := range map[string]int{
				"bad": 56, "rather-bad": 56, "so-so": 56, "rather-good": 56, "good": 56, "stop": 52, "menu": 44,
				"question": 14, "learning": 20, "tally": 12, "task": 12,
				"worse": 44, "better": 44, "goal": 44, "cant": 44, "undo": 44, "task-menu": 44, "presses": 14,
			} {
				width := min(height, 44)
				if seen := p.Eval(inSight + fmt.Sprintf("('%s', %d, %d)", id, width, height)); seen != "true" {
					t.Errorf("%s: %s is smaller than %d px, cut or covered: %s", where, id, height,
						p.Eval("JSON.stringify(document.getElementById('"+id+"').getBoundingClientRect())"))
				}
			}
			if wrong := p.Eval(stopInSight + fmt.Sprintf("('#stop', %d, %d)", s.X, s.Y)); wrong != "" {
				t.Errorf("%s: STOP: %s", where, wrong)
			}
		}
	}
}

func TestPage_TellsANewPersonWhatToDo(t *testing.T) {
	ideas := []string{"stand up: good while the head is high", "walk: good while it walks"}
	s := open(t, func(_ *Config, o *Options) {
		o.About = About{Robot: "walker", Strategy: "thompson", Suggestions: ideas}
	})
	waiting := View{Tick: 1, Mode: "disarmed", Waiting: true, Known: "It knows nothing of the task yet."}
	s.Show(waiting)
	p := openPage(t, smallPhones[0])
	p.Open(s.Pairing().URL)
	p.UntilText("question", "^Press any key or the Good button to start\\.$")
	p.UntilText("detail", "^This press is not a label\\.$")
	p.UntilText("task", "^waits for your first press$")
	p.UntilText("learnt", "^It knows nothing of the task yet\\.$")
	p.UntilText("ideas", "(?s)keep to one rule.*stand up: good while the head is high\\s+walk: good")
	picture(t, p, "small-320x568-start")
	for _, symbol := range []string{"thompson", "κ", "D-gap", "log det", "ẑ", "Hz"} {
		if seen := p.Eval("document.body.innerText.includes('" + symbol + "')"); seen != "false" {
			t.Errorf("the first screen has %q", symbol)
		}
	}
	p.Key(" ") // STOP starts nothing
	p.Key("x")
	p.Until("document.querySelector('#presses').innerText", "^Good")
	if n := p.Eval("document.querySelector('#presses').children.length"); n != "1" {
		t.Errorf("%s presses, want one", n)
	}
	waiting.Waiting, waiting.Mode, waiting.Labels, waiting.Tick = false, "armed", 1, 2
	s.Show(waiting)
	p.UntilText("task", "^learns from your labels$")
	p.UntilText("tally", "^1 label$")
	p.Until("document.getElementById('ideas').hidden", "true")
	p.Eval("document.getElementById('details').open = true")
	p.Until("document.getElementById('ideas').hidden", "false")
	p.Until("document.querySelector('.charts').innerText",
		"(?s)Worth of a label now.*D-gap.*Knowledge from labels.*log det V")
}

func TestPage_KeepsTheFormerTaskOnlyWhileThatIsPossible(t *testing.T) {
	s := open(t, nil)
	const few, many = "Too early to tell how well it knows.", "Better than guessing, reaches 55–100 %."
	v := View{Tick: 1, Mode: "armed", Labels: 3, Follows: "the saved task walk", Known: few}
	s.Show(v)
	p := openPage(t, phone)
	p.Open(s.Pairing().URL)
	p.UntilText("task", "^follows the saved task walk$")
	p.UntilText("learnt", "^"+few+"$")
	v.Tick, v.Follows, v.Keepable = 2, "", true
	s.Show(v)
	p.UntilText("task", "^learns from your labels$")
	p.UntilText("learnt", "^It seems that the task changed")
	const hidden = "document.getElementById('keep-task').hidden"
	p.Until(hidden, "false")
	p.Tap("keep-task")
	var got [1]rewardsrc.Label
	for s.Poll(got[:]) == 0 {
		time.Sleep(time.Millisecond)
	}
	if got[0].Kind != rewardsrc.Keep || got[0].Request != 0 {
		t.Errorf("got %+v", got[0])
	}
	v.Tick, v.Keepable = 3, false
	s.Show(v)
	p.Until(hidden, "true")
	p.UntilText("learnt", "^"+few+"$")
	v.Tick, v.Known, v.KnownPart = 4, many, 0.5
	s.Show(v)
	p.UntilText("learnt", "^"+many+"$")
	p.Until("document.getElementById('learnt-bar').style.width", "^50%$")
	v.Tick, v.Keepable = 5, true
	s.Show(v)
	p.Until(hidden, "false")
	s.End(Ending{Why: "the time is over"})
	p.Until(hidden, "true")
	p.UntilText("learnt", "^"+many+"$")
}

func TestPage_StrikesOutAnUndonePress(t *testing.T) {
	d, _ := openForBrowser(t, nil)
	p := openConsole(t, d, phone)
	p.Tap("good")
	first := d.next(t)
	p.UntilText("presses", `^Good\s+counted`)
	p.Tap("undo")
	d.next(t)
	d.do <- func() { d.Undone(first.ID) }
	p.Until("document.querySelector('#presses [data-status=undone] del')?.innerText", "^Good$")
	p.Until("document.querySelector('#presses li').innerText", `^Undo · Good\s+counted`)
	picture(t, p, "phone-undone")
}

// stopInSight evaluates to what is wrong with where a STOP button is; "" is right.
const stopInSight = `((id, innerWidth, innerHeight) => {
	const stop = document.querySelector(id), r = stop.getBoundingClientRect();
	const inside = r.left >= 0 && r.top >= 0 && r.right <= innerWidth && r.bottom <= innerHeight;
	const big = r.width >= 64 && r.height >= 44;
	const whole = stop.scrollWidth <= stop.clientWidth && stop.scrollHeight <= stop.clientHeight;
	const onTop = [0.1, 0.5, 0.9].every((x) => [0.1, 0.5, 0.9].every((y) => {
		return stop.contains(document.elementFromPoint(r.left + x * r.width, r.top + y * r.height));
	}));
	const right = document.documentElement.scrollWidth <= innerWidth;
	if (inside && big && whole && onTop && right) return '';
	return JSON.stringify({ inside, big, whole, onTop, right, at: r, page: document.documentElement.scrollWidth });
})`

func TestPage_StopIsAlwaysVisible(t *testing.T) {
	d, _ := openForBrowser(t, func(_ *Config, o *Options) {
		o.Tasks = &shelf{names: strings.Fields(strings.Repeat("walk ", 9))}
	})
	p := openConsole(t, d, laptop)
	sizes := []image.Point{
		{390, 844}, {844, 390}, {320, 568}, {568, 320}, {1440, 900},
		{260, 563}, {563, 260}, {213, 379}, {379, 213}, {960, 600}, // the same, the browser's zoom being 150 %
	}
	long := "beyond a limit: " + strings.Repeat("the observation channel left_front_wheel_current is out of range; ", 6)
	for _, scene := range []struct {
		name string
		show func()
	}{
		{"nothing", func() { p.UntilText("question", "No question") }},
		{"a request", func() {
			d.ask(1, 10*time.Minute)
			p.UntilText("question", "How was it")
		}},
		{"a request and a long notice", func() {
			d.stops(long)
			p.UntilText("banner", "beyond a limit")
		}},
	} {
		scene.show()
		for _, at := range sizes {
			p.Resize(at)
			for _, text := range []string{"100%", "150%"} {
				p.Eval("document.documentElement.style.fontSize = '" + text + "'")
				where := fmt.Sprintf("%d x %d, text %s, %s", at.X, at.Y, text, scene.name)
				if wrong := p.Eval(stopInSight + fmt.Sprintf("('#stop', %d, %d)", at.X, at.Y)); wrong != "" {
					t.Errorf("%s: %s", where, wrong)
				}
				name := fmt.Sprintf("stop-%dx%d-%s-%s", at.X, at.Y, strings.Trim(text, "%"), scene.name)
				picture(t, p, strings.ReplaceAll(name, " ", "-"))
				p.Eval("document.getElementById('settings').showModal()")
				inDialog := fmt.Sprintf("('#settings .stop', %d, %d)", at.X, at.Y)
				if wrong := p.Eval(stopInSight + inDialog); wrong != "" {
					t.Errorf("%s: in the settings: %s", where, wrong)
				}
				p.Eval("document.getElementById('settings').close()")
				p.Eval("document.getElementById('tasks').showModal()")
				inDialog = fmt.Sprintf("('#tasks .stop', %d, %d)", at.X, at.Y)
				if wrong := p.Eval(stopInSight + inDialog); wrong != "" {
					t.Errorf("%s: in the tasks: %s", where, wrong)
				}
				p.Eval("document.getElementById('tasks').close()")
			}
		}
	}
}

func TestPage_SavesLoadsAndBeginsTasks(t *testing.T) {
	kept := &shelf{others: []SavedTask{{"run", "dm_control cheetah", true}, {"walk", "", true}}}
	d, stopped := openForBrowser(t, func(_ *Config, o *Options) { o.Tasks = kept })
	p := openConsole(t, d, phone)
	wantCalls := func(want ...string) {
		t.Helper()
		kept.mu.Lock()
		defer kept.mu.Unlock()
		if !slices.Equal(kept.calls, want) {
			t.Errorf("calls %q, want %q", kept.calls, want)
		}
	}
	type save struct{ name, says string }
	p.Tap("task-menu")
	p.UntilText("task-none", "No task of this robot’s model is saved")
	p.UntilText("task-list", "dm_control cheetah: another model\\s+run\\s+Unknown robot: another model\\s+walk")
	p.Until("document.querySelectorAll('#task-list button').length", "0") // none that it cannot follow
	for _, s := range []save{{"a b", ""}, {"gentle-turn", "Saved as gentle-turn"}} {
		p.Eval("document.getElementById('task-name').value = '" + s.name + "'")
		p.Eval("document.getElementById('task-form').requestSubmit()")
		p.UntilText("task-name-error", map[bool]string{true: "Use letters", false: "^$"}[s.says == ""])
		p.UntilText("task-note", s.says)
	}
	p.Eval("document.getElementById('task-name').value = 'run'")
	p.Eval("document.getElementById('task-form').requestSubmit()")
	p.UntilText("task-effect", "dm_control cheetah has a task of this name")
	p.Eval("document.getElementById('task-no').click()")
	picture(t, p, "phone-tasks")
	wantCalls("save gentle-turn")
	p.Eval("document.querySelector('#task-list button').click()")
	p.UntilText("task-effect", "Keep clear") // the robot is armed
	p.Eval("document.getElementById('task-no').click()")
	wantCalls("save gentle-turn")
	p.Eval("document.querySelector('#task-list button').click()")
	p.Record("banner")
	p.Tap("task-yes")
	p.UntilShown("banner", "follows the task gentle-turn")
	p.Tap("task-menu")
	p.Tap("task-begin")
	p.Tap("task-yes")
	p.UntilShown("banner", "A new task begins")
	wantCalls("save gentle-turn", "load gentle-turn", "new")
	p.Tap("task-menu")
	p.Eval("document.querySelector('#tasks .stop').click()")
	<-stopped
}

func TestPage_SpaceIsStop(t *testing.T) {
	d, stopped := openForBrowser(t, nil)
	p := openConsole(t, d, phone)
	press := func(focus string) {
		p.Eval("document.getElementById('" + focus + "').focus()")
		p.Key(" ")
	}
	for _, focus := range []string{"good", "stop", "undo"} {
		press(focus)
		receive(t, stopped)
	}
	p.Until("document.getElementById('presses').children.length", "^0$") // Good labelled nothing
	press("menu")                                                        // another button
	p.Until("document.getElementById('settings').open", "true")
}

func TestPage_SpaceIsStopAtTheSlider(t *testing.T) {
	d, stopped := openForBrowser(t, func(c *Config, o *Options) { o.Mode, c.SampleMS = Continuous, 100 })
	p := openConsole(t, d, phone)
	p.Eval("document.getElementById('slider').focus()")
	p.Key(" ")
	receive(t, stopped)
	p.Key("u")
	if l := d.next(t); l.Kind != rewardsrc.Undo {
		t.Errorf("label %+v of the key u at the slider, want an undo", l)
	}
}

// contrast is the contrast ratio of the text of an element and its background (WCAG 2).
const contrast = `(() => {
	const style = getComputedStyle(document.getElementById('cant'));
	if (style.opacity !== '1') return 0;
	const luminance = (colour) => {
		const linear = (v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
		const [r, g, b] = colour.match(/[\d.]+/g).map((v) => linear(v / 255));
		return .2126 * r + .7152 * g + .0722 * b + .05;
	};
	const [a, b] = [luminance(style.color), luminance(style.backgroundColor)];
	return Math.max(a, b) / Math.min(a, b);
})()`

func TestPage_IdleButtonsAreReadable(t *testing.T) {
	d, _ := openForBrowser(t, nil)
	p := openConsole(t, d, phone)
	p.Until("document.getElementById('cant').dataset.idle", "true")
	p.Until("document.getElementById('link').role === null", "true") // its number is not spoken at each change
	for _, theme := range []string{"light", "dark"} {
		p.Theme(theme)
		p.Until(contrast+" >= 4.5", "true")
		picture(t, p, "phone-idle-"+theme)
	}
}

func TestPage_StatesEffectOfStop(t *testing.T) {
	for ends, want := range map[bool]string{
		true: "Halts the robot and ends the run.", false: "Halts the robot until an operator resets it.",
	} {
		d, _ := openForBrowser(t, func(_ *Config, o *Options) { o.About.StopEndsRun = ends })
		p := openPage(t, phone)
		p.Open(d.Pairing().URL)
		p.UntilText("stop-effect", "^"+want+"$")
	}
}

// upright tells, from the picture of the moment to label, whether the walker stands: its head is
// near the upper edge.
const upright = `(() => {
	const c = document.getElementById('moment');
	const { data, width, height } = c.getContext('2d').getImageData(0, 0, c.width, c.height);
	for (let i = 0; i < data.length; i += 4) {
		if (data[i] > 180 && data[i + 1] > 110 && data[i + 2] < 130) return Math.floor(i / 4 / width) < 0.2 * height;
	}
	return false;
})()`

// TestPage_LabelsARun teaches a walker to stand, as a person who sees only the page, with a laptop
// and then with a phone, and takes docs/console.png. Start "optibfm run --config walker-human"
// first, and give the address that it prints to -live.
func TestPage_LabelsARun(t *testing.T) {
	if *live == "" {
		t.Skip("needs a run: -live ADDRESS")
	}
	p := openPage(t, laptop)
	p.Theme("dark")
	p.Open(*live)
	p.UntilText("link", `\d ms`)
	p.Do("Emulation.setTouchEmulationEnabled", map[string]any{"enabled": true}, nil)
	picture(t, p, "live-start")
	p.Tap("good")     // starts the robot
	asked := func() { // and its moment is on the screen
		t.Helper()
		p.Until("document.getElementById('request').dataset.open", "true")
		p.Until("document.getElementById('then').hidden", "false")
		p.Until("document.getElementById('then').dataset.marked", "true")
	}
	judge := func() {
		t.Helper()
		asked()
		button := "bad"
		if p.Eval(upright) == "true" {
			button = "good"
		}
		p.Tap(button)
		p.Until("document.querySelector('#presses li').dataset.status", "^counted$")
	}
	for range 12 {
		judge()
	}
	asked()
	shots := [][]byte{p.Screenshot()}
	p.Theme("light")
	p.Resize(phone)
	judge()
	asked()
	shots = append(shots, p.Screenshot())
	for _, at := range smallPhones {
		p.Resize(at)
		judge()
		asked()
		picture(t, p, fmt.Sprintf("live-%dx%d", at.X, at.Y))
	}
	if *pictures != "" {
		sideBySide(t, filepath.Join(*pictures, "console.png"), shots)
	}
}

// sideBySide writes a picture of pictures.
func sideBySide(t *testing.T, path string, shots [][]byte) {
	t.Helper()
	const margin = 28
	all := image.NewRGBA(image.Rect(0, 0, laptop.X+phone.X+3*margin, phone.Y+2*margin))
	draw.Draw(all, all.Bounds(), image.NewUniform(color.RGBA{0x78, 0x82, 0x8e, 0xff}), image.Point{}, draw.Src)
	left := margin
	for _, shot := range shots {
		picture, err := png.Decode(bytes.NewReader(shot))
		fatal.If(t, err)
		at := image.Pt(left, (all.Rect.Dy()-picture.Bounds().Dy())/2)
		draw.Draw(all, picture.Bounds().Add(at), picture, image.Point{}, draw.Src)
		left += picture.Bounds().Dx() + margin
	}
	var text bytes.Buffer
	fatal.If(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&text, all))
	fatal.If(t, os.WriteFile(path, text.Bytes(), 0o644))
}

// shot is a picture of one colour.
func shot(t *testing.T, c color.Color) frames.Frame {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 64, 48))
	draw.Draw(m, m.Bounds(), image.NewUniform(c), image.Point{}, draw.Src)
	var out bytes.Buffer
	fatal.If(t, jpeg.Encode(&out, m, nil))
	return frames.Frame{At: rewardsrc.Monotonic(), JPEG: out.Bytes()}
}

// colourOf is an expression for the colour in the middle of a canvas.
func colourOf(id string) string {
	return `(() => { const c = document.getElementById('` + id + `');
		const [r, g] = c.getContext('2d').getImageData(c.width / 2, c.height / 2, 1, 1).data;
		return r > 200 && g < 60 ? 'red' : g > 200 && r < 60 ? 'green' : r + ' ' + g; })()`
}

func TestPage_ShowsTheMomentToLabel(t *testing.T) {
	red, green := color.RGBA{255, 0, 0, 255}, color.RGBA{0, 255, 0, 255}
	album := newAlbum()
	d, _ := openForBrowser(t, func(_ *Config, o *Options) {
		o.Pictures, o.About.Credit, o.About.RecordView = album, Credit{DelayMS: 200, WidthMS: 400, ClipMS: 500}, true
	})
	p := openPage(t, phone)
	p.Open(d.Pairing().URL)
	p.UntilText("picture-note", "the camera is dark")
	album.add(shot(t, red))
	p.Until(colourOf("picture"), "red")
	p.Until("document.getElementById('recorded').checkVisibility()", "true")
	album.add(shot(t, red)) // near the moment, also on a busy computer
	d.ask(1, 20*time.Second)
	p.UntilText("moment-note", `Label this: \d\.\d s ago`)
	album.add(shot(t, green))
	p.Until(colourOf("picture"), "green")
	p.Until(colourOf("moment"), "red")
	picture(t, p, "phone-moment")
	p.Tap("good")
	d.next(t)
	p.Until("document.getElementById('then').hidden", "true")

	album.add(shot(t, green))
	time.Sleep(300 * time.Millisecond) // the credited time ends before the press
	p.Tap("bad")
	d.next(t)
	p.UntilText("moment-note", `Bad counts for this, 0\.2 s to 0\.6 s before the press`)
	p.Until(colourOf("moment"), "green")
}

func TestPage_DrawsARobotWithAPosition(t *testing.T) {
	d, _ := openForBrowser(t, nil)
	p := openConsole(t, d, phone)
	p.Until("document.getElementById('pictures').hidden", "true")
	d.pose(0, 0)
	p.Until("document.getElementById('pictures').hidden", "false")
	middle := `(() => { const c = document.getElementById('picture');
		return c.getContext('2d').getImageData(c.width / 2 - 8, c.height / 2, 1, 1).data.join(); })()`
	at := p.Until(middle, `^\d+,`)
	d.pose(0.9, -0.9)
	p.Until(middle+" !== '"+at+"'", "true")
}

func TestPage_SliderLabelsWhileHeld(t *testing.T) {
	d, _ := openForBrowser(t, func(c *Config, o *Options) { o.Mode, c.SampleMS = Continuous, 100 })
	p := openConsole(t, d, phone)
	at := func(fraction float64) string {
		return fmt.Sprintf(`(() => {
			const r = document.getElementById('slider').getBoundingClientRect();
			return { x: r.x + r.width * %g, y: r.y + r.height / 2 };
		})()`, fraction)
	}
	p.Touch("touchStart", at(0.5))
	p.Touch("touchMove", at(0.95))
	var last rewardsrc.Label
	for range 5 {
		last = d.next(t)
	}
	picture(t, p, "phone-slider")
	p.Touch("touchEnd", "")
	if last.Value < 0.7 || last.Value > 1 {
		t.Errorf("value %g with the thumb near good, want about 0.9", last.Value)
	}
	time.Sleep(300 * time.Millisecond)
	for len(d.labels) > 0 {
		<-d.labels
	}
	time.Sleep(500 * time.Millisecond)
	if n := len(d.labels); n > 0 {
		t.Errorf("%d labels came after the slider was let go", n)
	}
}
