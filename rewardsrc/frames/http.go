package frames

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"optibfm/internal/redact"
	"optibfm/internal/resolve"
)

const (
	timeHeader = "X-Monotonic-Ns" // of a part, or of the answer with one picture
	maxPerS    = 16 << 20         // bytes that are read in a second
	oldest     = 10 * time.Second // the age of a frame with a time

	maxRedirects = 5
)

var errEnded = errors.New("the server ended the stream")

// readURL stores the frames of an HTTP server.
func (s *Store) readURL(ctx context.Context, put func(int64, encoder) error) error {
	client, address := s.client()
	defer client.CloseIdleConnections()
	for {
		stream, err := s.fetch(ctx, client, address, put)
		if err != nil || stream {
			return err
		}
		select {
		case <-time.After(s.config.period()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// client returns a client and the address that it requests.
func (s *Store) client() (*http.Client, string) {
	path, local := strings.CutPrefix(s.config.URL, "unix:")
	dialer := net.Dialer{Timeout: silence}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return resolve.Dial(ctx, &dialer, network, address)
		},
		ResponseHeaderTimeout:  silence,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
	if !local {
		transport.Proxy = http.ProxyFromEnvironment
		return &http.Client{Transport: transport, CheckRedirect: sameServer}, s.config.URL
	}
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", path)
	}
	return &http.Client{Transport: transport, CheckRedirect: sameServer}, "http://robot/"
}

// sameServer refuses to follow a server to another one: the robot may reach servers that the camera
// may not.
func sameServer(to *http.Request, via []*http.Request) error {
	if from := via[0].URL; to.URL.Scheme != from.Scheme || to.URL.Host != from.Host {
		return fmt.Errorf("it redirects to %.200q, another server; set the url to that address if it is the camera",
			redact.Text(to.URL.String()))
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	return nil
}

// fetch makes a request and stores its frames: many of a stream, or one.
func (s *Store) fetch(
	ctx context.Context, client *http.Client, address string, put func(int64, encoder) error,
) (stream bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false, err
	}
	response, err := client.Do(request)
	var failed *url.Error // repeats the address
	if errors.As(err, &failed) {
		err = failed.Err
	}
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return false, fmt.Errorf("%s %s", response.Status, strings.TrimSpace(string(text)))
	}
	kind, parameters, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	body := &paced{ctx: ctx, from: response.Body}
	if !strings.HasPrefix(kind, "multipart/") {
		return false, s.store(body, textproto.MIMEHeader(response.Header), put)
	}
	parts := multipart.NewReader(bufio.NewReader(body), strings.TrimPrefix(parameters["boundary"], "--"))
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			err = errEnded
		}
		if err != nil {
			return true, err
		}
		if err := s.store(part, part.Header, put); err != nil {
			return true, err
		}
	}
}

// store reads one picture. Without its length, that of a stream is complete when the next one
// begins.
func (s *Store) store(from io.Reader, header textproto.MIMEHeader, put func(int64, encoder) error) error {
	limit := int64(maxBytes + 1)
	if length, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64); err == nil && length >= 0 {
		limit = min(limit, length)
	}
	picture, err := io.ReadAll(io.LimitReader(from, limit))
	if err != nil {
		return err
	}
	return put(s.captured(header.Get(timeHeader)), func() ([]byte, error) { return picture, nil })
}

// captured returns the time of capture that a server sent, or the time of arrival.
func (s *Store) captured(header string) int64 {
	at, err := strconv.ParseInt(header, 10, 64)
	if now := s.now(); err == nil && at <= now && at >= now-oldest.Nanoseconds() {
		return at
	}
	return s.arrived()
}

// paced reads at most maxPerS.
type paced struct {
	ctx   context.Context
	from  io.Reader
	since time.Time
	read  int
}

func (p *paced) Read(b []byte) (int, error) {
	switch elapsed := time.Since(p.since); {
	case elapsed > time.Second:
		p.since, p.read = time.Now(), 0
	case p.read > maxPerS:
		select {
		case <-time.After(time.Second - elapsed):
		case <-p.ctx.Done():
			return 0, p.ctx.Err()
		}
	}
	n, err := p.from.Read(b)
	p.read += n
	return n, err
}
