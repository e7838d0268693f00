package frames

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// picture returns a JPEG of one colour.
func picture(shade uint8) []byte {
	m := image.NewGray(image.Rect(0, 0, 16, 8))
	for i := range m.Pix {
		m.Pix[i] = shade
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, m, nil); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func shadeOf(t *testing.T, f Frame) uint8 {
	t.Helper()
	m, err := jpeg.Decode(bytes.NewReader(f.JPEG))
	fatal.If(t, err)
	return color.GrayModel.Convert(m.At(3, 3)).(color.Gray).Y
}

// stream serves the pictures, and then does after.
func stream(pictures [][]byte, at []int64, after func(*http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		parts := multipart.NewWriter(w)
		w.Header().Set("Content-Type", "multipart/x-mixed-replace; boundary="+parts.Boundary())
		for i, p := range pictures {
			header := textproto.MIMEHeader{"Content-Type": {"image/jpeg"}, "Content-Length": {fmt.Sprint(len(p))}}
			if at != nil {
				header.Set(timeHeader, fmt.Sprint(at[i]))
			}
			part, _ := parts.CreatePart(header)
			_, _ = part.Write(p)
		}
		if after == nil {
			_ = parts.Close()
			return
		}
		w.(http.Flusher).Flush()
		after(r)
	}
}

func untilGone(r *http.Request) { <-r.Context().Done() }

// run runs a store with a watcher until the test ends.
func run(t *testing.T, c Config, now func() int64) *Store {
	t.Helper()
	s := NewStore(c, now)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	t.Cleanup(s.Watch())
	return s
}

// clock advances by a second with each call.
func clock() func() int64 {
	var n atomic.Int64
	return func() int64 { return n.Add(int64(time.Second)) }
}

func configOf(url string) Config {
	c := DefaultConfig()
	c.URL = url
	return c
}

func next(t *testing.T, s *Store, after int64) Frame {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f, err := s.Next(ctx, after)
	if err != nil {
		t.Fatalf("%v; %s", err, s.Problem())
	}
	return f
}

func problem(t *testing.T, s *Store, want string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(s.Problem(), want); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("problem %q, want %q", s.Problem(), want)
		}
	}
}

func TestStore_ReceivesStreamWithItsTimes(t *testing.T) {
	const second = int64(time.Second)
	now := func() int64 { return 100 * second }
	server := httptest.NewServer(stream([][]byte{picture(10), picture(200)}, []int64{98 * second, 99 * second}, untilGone))
	t.Cleanup(server.Close)
	s := run(t, configOf(server.URL), now)
	f := next(t, s, 98*second)
	if f.At != 99*second || shadeOf(t, f) < 190 {
		t.Errorf("frame at %d", f.At)
	}
	all := s.After(0)
	if len(all) != 2 || all[0].At != 98*second || shadeOf(t, all[0]) > 20 {
		t.Errorf("%d frames", len(all))
	}
}

func TestStore_IgnoresImpossibleTimes(t *testing.T) {
	const second = int64(time.Second)
	now := func() int64 { return 100 * second }
	for _, at := range []int64{101 * second, 80 * second, -1} {
		server := httptest.NewServer(stream([][]byte{picture(10)}, []int64{at}, untilGone))
		t.Cleanup(server.Close)
		c := configOf(server.URL)
		c.DelayMS = 500
		if f := next(t, run(t, c, now), 0); f.At != 100*second-second/2 {
			t.Errorf("%d became %d", at, f.At)
		}
	}
}

func TestStore_PollsSnapshotsOnUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "view.sock")
	listener, err := net.Listen("unix", path)
	fatal.If(t, err)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "image/jpeg")
			_, _ = w.Write(picture(50))
		})}}
	server.Start()
	t.Cleanup(server.Close)
	s := run(t, configOf("unix:"+path), clock())
	first := next(t, s, 0)
	if second := next(t, s, first.At); second.At <= first.At {
		t.Error("no second frame")
	}
}

func TestStore_OpensSourceOnlyForWatchers(t *testing.T) {
	var requests atomic.Int32
	ended := make(chan struct{})
	server := httptest.NewServer(stream([][]byte{picture(1)}, nil, func(r *http.Request) {
		requests.Add(1)
		untilGone(r)
		close(ended)
	}))
	t.Cleanup(server.Close)
	s := NewStore(configOf(server.URL), clock())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go s.Run(ctx)
	time.Sleep(50 * time.Millisecond)
	if requests.Load() != 0 {
		t.Error("a request without a watcher")
	}
	end := s.Watch()
	next(t, s, 0)
	end()
	<-ended
	if p := s.Problem(); p != "" {
		t.Error(p)
	}
}

func TestStore_ReportsBadSources(t *testing.T) {
	big := append(picture(1), make([]byte, maxBytes)...)
	for want, handler := range map[string]http.HandlerFunc{
		"not a JPEG":         stream([][]byte{[]byte("hello")}, nil, untilGone),
		"too large":          stream([][]byte{big}, nil, untilGone),
		"ended the stream":   stream([][]byte{picture(1)}, nil, nil),
		"404 Not Found gone": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "gone", http.StatusNotFound) },
		errSilent.Error():    func(_ http.ResponseWriter, r *http.Request) { untilGone(r) },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			problem(t, run(t, configOf(server.URL), clock()), want)
		})
	}
	problem(t, run(t, configOf("unix:/nowhere"), clock()), "no such file")
	c := DefaultConfig()
	c.Camera = "/nowhere"
	problem(t, run(t, c, clock()), "connect the camera")
}

func TestStore_SkipsBadPictures(t *testing.T) {
	t.Parallel()
	bad := []byte("hello")
	pictures := [][]byte{bad, bad, picture(80), bad, bad, bad, bad, picture(200)}
	var at []int64
	for i := range pictures {
		at = append(at, int64(i+1)*time.Second.Nanoseconds())
	}
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		stream(pictures, at, untilGone)(w, r)
	}))
	t.Cleanup(server.Close)
	s := run(t, configOf(server.URL), func() int64 { return at[len(at)-1] })
	if f := next(t, s, at[6]); f.At != at[7] {
		t.Errorf("frame of %d", f.At)
	}
	if n := len(s.After(0)); n != 2 || requests.Load() != 1 || s.Problem() != "" {
		t.Errorf("%d frames of %d requests, problem %q", n, requests.Load(), s.Problem())
	}
}

func TestStore_OpensAgainAfterSeveralBadPictures(t *testing.T) {
	t.Parallel()
	bad := []byte("hello")
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			stream([][]byte{bad, bad, bad, bad, bad}, nil, untilGone)(w, r)
			return
		}
		stream([][]byte{picture(80)}, nil, untilGone)(w, r)
	}))
	t.Cleanup(server.Close)
	s := run(t, configOf(server.URL), clock())
	problem(t, s, "5 bad pictures in a row")
	next(t, s, 0)
}

func TestStore_HidesSecretsOfAddress(t *testing.T) {
	var other string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other, http.StatusFound)
	}))
	t.Cleanup(server.Close)
	other = "http://me:s3cret@elsewhere/?token=s3cret"
	where := strings.Replace(server.URL, "://", "://me:s3cret@", 1) + "/?key=s3cret"
	s := run(t, configOf(where), clock())
	problem(t, s, "elsewhere")
	if text := s.Problem(); strings.Contains(text, "s3cret") {
		t.Error(text)
	}
}

// A flood costs frames and neither memory nor rate.
func TestStore_LimitsFlood(t *testing.T) {
	one := picture(1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := multipart.NewWriter(w)
		w.Header().Set("Content-Type", "multipart/x-mixed-replace; boundary="+parts.Boundary())
		for r.Context().Err() == nil {
			part, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {"image/jpeg"}})
			if err != nil {
				return
			}
			if _, err := part.Write(one); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	var at atomic.Int64
	now := func() int64 { return at.Add(int64(time.Millisecond)) } // a frame each ms
	s := run(t, configOf(server.URL), now)
	for s.now() < int64(3*Kept) {
		next(t, s, at.Load()-int64(time.Second))
	}
	all := s.After(0)
	for i := 1; i < len(all); i++ {
		if gap := time.Duration(all[i].At - all[i-1].At); gap < s.config.period()/2 {
			t.Fatalf("two frames in %v", gap)
		}
	}
	if span := time.Duration(all[len(all)-1].At - all[0].At); span > Kept || len(all) > int(Kept.Seconds()*15*1.1) {
		t.Errorf("%d frames in %v", len(all), span)
	}
}

func TestStore_BoundsMemory(t *testing.T) {
	s := NewStore(DefaultConfig(), nil)
	big := append(picture(1), make([]byte, maxBytes-1000)...)
	for i := range 100 {
		fatal.If(t, s.add(Frame{At: int64(i + 1), JPEG: big}))
	}
	if n := len(s.After(0)); n == 0 || n*len(big) > maxKept {
		t.Errorf("%d frames of %d bytes", n, len(big))
	}
}

func TestConfig_Validate(t *testing.T) {
	for url, ok := range map[string]bool{
		"http://cam/stream": true, "unix:/run/view.sock": true, "https://10.0.0.2:8443/x": true,
		"cam": false, "unix:": false, "file:///etc/passwd": false,
		"unix:/" + strings.Repeat("x", 107): false, "http:///x": false, "://": false,
	} {
		if err := configOf(url).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
	}
	both := Config{Camera: "/dev/video0", URL: "http://cam"}
	errtest.NotNil(t, both.Validate(), "two sources")
}

func TestEncodeYUYV(t *testing.T) {
	raw := bytes.Repeat([]byte{120, 128, 120, 128}, 16*8/2)
	picture, err := encodeYUYV(raw, 16, 8)
	fatal.If(t, err)
	if shade := shadeOf(t, Frame{JPEG: picture}); shade < 115 || shade > 125 {
		t.Errorf("shade %d", shade)
	}
	for _, size := range [][2]int{{16, 9}, {15, 8}, {0, 8}, {-2, -8}} {
		errtest.NotNil(t, errtest.Of(encodeYUYV(raw, size[0], size[1])), size)
	}
}

// TestKernel_Camera uses vivid, the kernel's simulated camera.
func TestKernel_Camera(t *testing.T) {
	if os.Getenv("OPTIBFM_VM") == "" {
		t.Skip("not in the machine of scripts/vm")
	}
	c := DefaultConfig()
	c.Camera = "/dev/video0"
	s := run(t, c, func() int64 { return time.Now().UnixNano() })
	first := next(t, s, 0)
	m, err := jpeg.Decode(bytes.NewReader(next(t, s, first.At).JPEG))
	fatal.If(t, err)
	if size := m.Bounds().Size(); size.X != 320 || size.Y < 180 || size.Y > 240 {
		t.Error(size)
	}
	shades := map[color.Color]bool{}
	for x := range 320 {
		shades[m.At(x, 90)] = true
	}
	if len(shades) < 8 { // its test picture has colour bars
		t.Errorf("%d colours", len(shades))
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("--x\r\nContent-Type: image/jpeg\r\n\r\nhello\r\n--x--\r\n"))
	f.Add(append([]byte("--x\r\nX-Monotonic-Ns: 5\r\n\r\n"), append(picture(3), "\r\n--x--"...)...))
	f.Fuzz(func(t *testing.T, body []byte) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "multipart/x-mixed-replace; boundary=x")
			_, _ = w.Write(body)
		}))
		t.Cleanup(server.Close)
		s := NewStore(configOf(server.URL), clock())
		client, address := s.client()
		defer client.CloseIdleConnections()
		if _, err := s.fetch(t.Context(), client, address, s.put); err == nil {
			t.Error("a stream that ended without an error")
		} else if errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for _, kept := range s.After(0) {
			errtest.Nil(t, errtest.Of(jpeg.DecodeConfig(bytes.NewReader(kept.JPEG))))
		}
	})
}

func TestStore_FollowsNoRedirectToAnotherServer(t *testing.T) {
	var reached atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		stream([][]byte{picture(9)}, nil, untilGone)(w, r)
	}))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL+"/secret", http.StatusFound)
		case "/moved":
			http.Redirect(w, r, "/here", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		default:
			stream([][]byte{picture(10)}, nil, untilGone)(w, r)
		}
	}))
	t.Cleanup(server.Close)
	problem(t, run(t, configOf(server.URL+"/away"), clock()), "it redirects to")
	problem(t, run(t, configOf(server.URL+"/loop"), clock()), "redirects")
	next(t, run(t, configOf(server.URL+"/moved"), clock()), 0)
	if n := reached.Load(); n != 0 {
		t.Errorf("%d requests to the other server", n)
	}
}

func TestStore_ResolvesMulticastNames(t *testing.T) {
	s := NewStore(Config{URL: "http://camera.local/stream", RateHz: 1}, func() int64 { return 0 })
	client, _ := s.client()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.Transport.(*http.Transport).DialContext(ctx, "tcp", "camera.local:80")
	errtest.Contains(t, err, "camera.local: context canceled; use the address")
}
