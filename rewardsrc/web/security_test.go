package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"optibfm/internal/authority"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func TestPairing_CodeWorksOnce(t *testing.T) {
	s := open(t, nil)
	for _, wrong := range []string{"", "x", strings.Repeat("A", 22)} {
		if got := post(t, s, "/pair", `{"token":"`+wrong+`"}`, "", nil).StatusCode; got != http.StatusForbidden {
			t.Errorf("code %q: status %d, want 403", wrong, got)
		}
	}
	before := s.Pairing()
	pairWith(t, s, token(before.URL))
	used := post(t, s, "/pair", `{"token":"`+token(before.URL)+`"}`, "", nil)
	if got := used.StatusCode; got != http.StatusForbidden {
		t.Errorf("a used code: status %d, want 403", got)
	}
	if after := s.Pairing(); after.Number != before.Number+1 || after.URL == before.URL {
		t.Errorf("pairing %d after %d, want the next one with another code", after.Number, before.Number)
	}
	pairWith(t, s, token(s.Pairing().URL))
}

func TestRegister_InvitationsExpire(t *testing.T) {
	var g register
	lasting, _ := g.issue(roleLabel, 0, 0)
	invited, _ := g.issue(roleWatch, 0, inviteLife)
	if _, _, err := g.pair(invited, int64(inviteLife)+1); err == nil {
		t.Error("an invitation works after its time")
	}
	if _, replace, err := g.pair(lasting, int64(time.Hour)); err != nil || !replace {
		t.Errorf("the terminal's code after an hour: replace %v, %v", replace, err)
	}
	for range maxInvites + 1 {
		if _, err := g.issue(roleWatch, 0, inviteLife); err != nil {
			return
		}
	}
	errtest.NotNil(t, errtest.Of(g.issue(roleWatch, 0, inviteLife)), "codes can be made without end")
}

func TestRegister_SessionEndsAfterADay(t *testing.T) {
	var g register
	code, _ := g.issue(roleLabel, 0, 0)
	cookie, _, err := g.pair(code, 0)
	if err != nil || g.find(cookie, int64(sessionLife)-1) == nil {
		t.Fatalf("no session: %v", err)
	}
	if g.find(cookie, int64(sessionLife)) != nil {
		t.Error("the session lives on after a day")
	}
}

func TestServer_LimitsPairingAttempts(t *testing.T) {
	s := open(t, nil)
	limited := 0
	for range 3 * pairBurst {
		if post(t, s, "/pair", `{"token":"guess"}`, "", nil).StatusCode == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited < pairBurst {
		t.Errorf("%d of %d tries were limited, want most", limited, 3*pairBurst)
	}
}

func TestServer_CookieIsProtected(t *testing.T) {
	s := open(t, nil)
	cookie := post(t, s, "/pair", `{"token":"`+token(s.Pairing().URL)+`"}`, "", nil).Header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("cookie %q without %s", cookie, want)
		}
	}
	if strings.Contains(cookie, "Secure") {
		t.Errorf("cookie %q is Secure without TLS: browsers would not send it", cookie)
	}
}

func TestServer_RefusesOtherOrigins(t *testing.T) {
	stopped := false
	s := open(t, func(_ *Config, o *Options) { o.Stop = func(string, bool) { stopped = true } })
	code := token(s.Pairing().URL)
	cookie := pairWith(t, s, code)
	for name, origin := range map[string]string{
		"another site": "https://evil.example", "another port": "http://127.0.0.1:1",
		"another scheme": strings.Replace(base(s), "http", "https", 1), "none": "", "null": "null",
	} {
		change := func(r *http.Request) {
			r.Header.Set("Origin", origin)
			if origin == "" {
				r.Header.Del("Origin")
			}
		}
		for _, path := range []string{"/stop", "/pair", "/session"} {
			answer := post(t, s, path, `{"token":"`+token(s.Pairing().URL)+`"}`, cookie, change)
			if got := answer.StatusCode; got != http.StatusForbidden {
				t.Errorf("%s from %s: status %d, want 403", path, name, got)
			}
		}
		header := http.Header{"Cookie": {cookie}}
		if origin != "" {
			header.Set("Origin", origin)
		}
		_, answer, err := websocket.Dial(t.Context(), base(s)+"/socket", &websocket.DialOptions{HTTPHeader: header})
		if err == nil || answer == nil || answer.StatusCode != http.StatusForbidden {
			t.Errorf("socket from %s: %v, want 403", name, err)
		}
	}
	if stopped {
		t.Error("another page stopped the robot")
	}
}

func TestServer_RefusesUnknownHosts(t *testing.T) {
	s := open(t, func(c *Config, _ *Options) { c.Hosts = []string{"Robot.local", "proxy.example:9000"} })
	_, port, _ := strings.Cut(strings.TrimPrefix(base(s), "http://"), ":")
	if port == "" {
		t.Fatal(base(s))
	}
	for host, want := range map[string]int{
		"127.0.0.1:" + port:    http.StatusOK,
		"localhost:" + port:    http.StatusOK,
		"robot.local:" + port:  http.StatusOK,
		"proxy.example:9000":   http.StatusOK,
		"evil.example":         http.StatusMisdirectedRequest,
		"evil.example:" + port: http.StatusMisdirectedRequest,
		"127.0.0.1:1":          http.StatusMisdirectedRequest,
		"192.0.2.9:" + port:    http.StatusMisdirectedRequest,
		"localhost":            http.StatusMisdirectedRequest,
		"robot.local":          http.StatusOK, // of a proxy
		"robot.local:443":      http.StatusOK,
		"proxy.example":        http.StatusOK,
		"robot.local:1":        http.StatusMisdirectedRequest,
		"proxy.example:443":    http.StatusMisdirectedRequest,
		"evil.example:443":     http.StatusMisdirectedRequest,
		"[::1%25x]:" + port:    http.StatusMisdirectedRequest,
	} {
		r, _ := http.NewRequest(http.MethodGet, "http://127.0.0.1:"+port+"/", nil)
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		fatal.If(t, err)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("host %s: status %d, want %d", host, answer.StatusCode, want)
		}
	}
}

func TestServer_AcceptsProxyThatEncrypts(t *testing.T) {
	s := open(t, func(c *Config, _ *Options) { c.Hosts = []string{"robot.example", "other.example:9000"} })
	own := s.bound.Load().addr.String()
	for _, c := range []struct {
		host, origin string
		want         int
	}{
		{"robot.example", "https://robot.example", http.StatusUnauthorized}, // allowed, but not paired
		{"Robot.example:443", "https://robot.example", http.StatusUnauthorized},
		{"other.example:9000", "https://other.example:9000", http.StatusUnauthorized},
		{"other.example", "https://other.example:9000", http.StatusUnauthorized},
		{own, "https://robot.example", http.StatusUnauthorized}, // the proxy sends its own target
		{own, "https://other.example", http.StatusForbidden},
		{own, "https://robot.example:9000", http.StatusForbidden},
		{own, "https://evil.example", http.StatusForbidden},
		{own, "https://robot.example.evil.example", http.StatusForbidden},
		{own, "http://robot.example", http.StatusForbidden},
		{"robot.example", "https://evil.example", http.StatusForbidden},
		{"evil.example", "https://evil.example", http.StatusMisdirectedRequest},
	} {
		r, _ := http.NewRequest(http.MethodPost, "http://"+own+"/session", nil)
		r.Host = c.host
		r.Header.Set("Origin", c.origin)
		answer, err := http.DefaultClient.Do(r)
		fatal.If(t, err)
		answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("host %s, origin %s: status %d, want %d", c.host, c.origin, answer.StatusCode, c.want)
		}
	}
}

// A page on another port of the robot is not a proxy: its requests have the port of the console.
func TestServer_RefusesOriginOfAnotherPort(t *testing.T) {
	for name, encrypted := range map[string]bool{"plain": false, "encrypted": true} {
		s := &Server{encrypted: encrypted}
		s.bound.Store(&bound{named: allowed([]string{"robot.local"}, "8642")})
		r, _ := http.NewRequest(http.MethodPost, "http://robot.local:8642/stop", nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey,
			net.Addr(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8642})))
		if s.byProxy(r, "https://robot.local") {
			t.Error(name)
		}
	}
}

func TestServer_SocketBehindProxy(t *testing.T) {
	s := open(t, func(c *Config, _ *Options) { c.Hosts = []string{"robot.example:443"} })
	if url := s.Pairing().URL; !strings.HasPrefix(url, "https://robot.example/#") {
		t.Errorf("address %s", url)
	}
	target := &url.URL{Scheme: "http", Host: s.bound.Load().addr.String()}
	proxy := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(target)) // keeps the Host
	t.Cleanup(proxy.Close)
	client := proxy.Client()
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, proxy.Listener.Addr().String())
	}
	client.Transport.(*http.Transport).TLSClientConfig.ServerName = "example.com" // of the test's certificate
	origin := http.Header{"Origin": {"https://robot.example"}}
	r, _ := http.NewRequest(http.MethodPost, "https://robot.example/pair",
		strings.NewReader(`{"token":"`+token(s.Pairing().URL)+`"}`))
	r.Header = origin.Clone()
	answer, err := client.Do(r)
	if err != nil || answer.StatusCode != http.StatusNoContent || !answer.Cookies()[0].Secure {
		t.Fatalf("pairing: %v %v", answer, err)
	}
	answer.Body.Close()
	origin.Set("Cookie", answer.Cookies()[0].String())
	conn, _, err := websocket.Dial(t.Context(), "https://robot.example/socket",
		&websocket.DialOptions{HTTPClient: client, HTTPHeader: origin})
	fatal.If(t, err)
	_ = conn.CloseNow()
}

func TestServer_RefusesUnpairedDevice(t *testing.T) {
	s := open(t, nil)
	for name, cookie := range map[string]string{
		"none": "", "a guess": "optibfm=" + strings.Repeat("A", 22), "an empty one": "optibfm=",
	} {
		_, answer, err := connect(t, s, "/socket", cookie)
		if err == nil || answer == nil || answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("cookie: %s: %v, want 401", name, err)
		}
		if got := post(t, s, "/session", "", cookie, nil).StatusCode; got != http.StatusUnauthorized {
			t.Errorf("cookie: %s: status %d, want 401", name, got)
		}
	}
}

// broken sends something and returns how the server ended the connection.
func broken(t *testing.T, s *Server, send func(*browser)) websocket.StatusCode {
	t.Helper()
	b := dial(t, s, pairWith(t, s, token(s.Pairing().URL)))
	send(b)
	select {
	case err := <-b.ended:
		return websocket.CloseStatus(err)
	case <-time.After(2 * soon):
		t.Fatal("the connection stays open")
		return 0
	}
}

func TestServer_BadMessagesEndOnlyTheirConnection(t *testing.T) {
	s := open(t, nil)
	for name, c := range map[string]struct {
		send func(*browser)
		want websocket.StatusCode
	}{
		"malformed": {func(b *browser) { b.raw([]byte(`{"type":`)) }, websocket.StatusPolicyViolation},
		"unknown":   {func(b *browser) { b.raw([]byte(`{"type":"arm"}`)) }, websocket.StatusPolicyViolation},
		"oversized": {
			func(b *browser) { b.raw([]byte(`{"type":"` + strings.Repeat("x", 4*maxMessage) + `"}`)) },
			websocket.StatusMessageTooBig,
		},
		"binary": {func(b *browser) {
			_ = b.conn.Write(context.Background(), websocket.MessageBinary, []byte(`{"type":"stop"}`))
		}, websocket.StatusPolicyViolation},
		"a flood": {func(b *browser) {
			for i := range uint64(4 * messageBurst) {
				b.write(message{Type: typePress, ID: i, Kind: kindGood, At: b.now()})
			}
		}, websocket.StatusPolicyViolation},
	} {
		if got := broken(t, s, c.send); got != c.want {
			t.Errorf("%s: ended with %v, want %v", name, got, c.want)
		}
	}
	b := dial(t, s, pairWith(t, s, token(s.Pairing().URL)))
	b.until("a state", func(state) bool { return true })
}

func TestServer_LimitsPresses(t *testing.T) {
	s := open(t, nil)
	b, _ := pairedBrowser(t, s)
	for i := range uint64(2 * pressBurst) {
		b.write(message{Type: typePress, ID: i + 1, Kind: kindGood, At: b.now()})
	}
	if r := b.reply(); r.Type != "refused" || !strings.Contains(r.Text, "too many presses") {
		t.Errorf("reply %+v, want a refusal", r)
	}
}

func TestCertificates_LeaveOutNamesThatAreNotASCII(t *testing.T) {
	certs := testCertificates(t, []string{"röbot.local", "robot.local"}, addresses, time.Now)
	if cert, err := certs.of("robot.local"); err != nil || cert.Leaf.VerifyHostname("robot.local") != nil {
		t.Error(cert, err)
	}
	c := DefaultConfig()
	c.Hosts = []string{"röbot.local"}
	errtest.Contains(t, c.Validate(), "xn--")
}

func TestServer_CertificateHasTheShownFingerprint(t *testing.T) {
	s := open(t, func(c *Config, _ *Options) { c.TLS = TLSSelfSigned })
	p := s.Pairing()
	if !strings.HasPrefix(p.URL, "https://") || p.Exposed {
		t.Fatalf("pairing %+v, want https", p)
	}
	var seen string
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, // the test trusts the fingerprint
		VerifyConnection: func(c tls.ConnectionState) error {
			seen = authority.Fingerprint(c.PeerCertificates[0].Raw)
			return c.PeerCertificates[0].VerifyHostname("127.0.0.1")
		},
	}}}
	r, _ := http.NewRequest(http.MethodPost, base(s)+"/pair", strings.NewReader(`{"token":"`+token(p.URL)+`"}`))
	r.Header.Set("Origin", base(s))
	answer, err := client.Do(r)
	fatal.If(t, err)
	answer.Body.Close()
	if seen != p.Fingerprint || !strings.Contains(p.Text(), p.Fingerprint) {
		t.Errorf("the certificate is %s, shown %s", seen, p.Fingerprint)
	}
	cookie := answer.Header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "__Host-optibfm=") || !strings.Contains(cookie, "Secure") {
		t.Errorf("cookie %q, want a __Host- one that is Secure", cookie)
	}
	plain, err := http.Get(strings.Replace(base(s), "https", "http", 1))
	if err == nil {
		body, _ := io.ReadAll(plain.Body)
		plain.Body.Close()
		if plain.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP: %s %s, want nothing", plain.Status, body)
		}
	}
}

func TestConfig_NamesInvalidKey(t *testing.T) {
	for key, change := range map[string]func(*Config){
		"listen":       func(c *Config) { c.Listen = "robot:1" },
		"listen has":   func(c *Config) { c.Listen = "127.0.0.1:99999" },
		"tls":          func(c *Config) { c.TLS = "yes" },
		"cert_file":    func(c *Config) { c.TLS = TLSFiles },
		"good_value":   func(c *Config) { c.GoodValue = c.BadValue },
		"hosts":        func(c *Config) { c.Hosts = []string{"http://robot"} },
		"max_late_s":   func(c *Config) { c.MaxLateS = 0 },
		"sample_ms":    func(c *Config) { c.SampleMS = 1 },
		"reaction_ms":  func(c *Config) { c.ReactionMS = -1 },
		"refractory_m": func(c *Config) { c.RefractoryMS = 1e9 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		errtest.Contains(t, cfg.Validate(), key, key)
	}
	errtest.Nil(t, DefaultConfig().Validate())
}

func TestPairing_WarnsOnlyWhenExposed(t *testing.T) {
	for listen, want := range map[string]struct{ encrypted, local bool }{
		"127.0.0.1:0": {false, true}, "[::1]:0": {false, true}, "localhost:0": {false, true},
		"0.0.0.0:0": {true, false}, "[::]:0": {true, false}, "192.0.2.1:0": {true, false},
	} {
		cfg := DefaultConfig()
		cfg.Listen = listen
		if cfg.encrypted() != want.encrypted || cfg.local() != want.local {
			t.Errorf("%s: encrypted %v, local %v; want %+v", listen, cfg.encrypted(), cfg.local(), want)
		}
	}
	s := open(t, func(c *Config, _ *Options) { c.Listen, c.TLS = "0.0.0.0:0", TLSOff })
	if p := s.Pairing(); !p.Exposed || !strings.Contains(p.Text(), "warning") {
		t.Errorf("no warning in %q", p.Text())
	}
}

func TestPairing_ReportsWhoCanOpenIt(t *testing.T) {
	for name, c := range map[string]struct {
		listen string
		hosts  []string
		local  bool
	}{
		"loopback":       {"127.0.0.1:0", nil, true},
		"behind a proxy": {"127.0.0.1:0", []string{"robot.example:443"}, false},
		"network":        {"0.0.0.0:0", nil, false},
	} {
		s := open(t, func(cfg *Config, _ *Options) { cfg.Listen, cfg.Hosts = c.listen, c.hosts })
		if r := s.invite(&client{session: &session{role: roleLabel}}, roleWatch); (r.QR == "") != c.local {
			t.Errorf("%s: invitation with the QR code %q", name, r.QR)
		}
		p := s.Pairing()
		if p.Local != c.local || strings.Contains(p.Text(), "this computer only") != c.local {
			t.Errorf("%s: local %v, %q", name, p.Local, p.Text())
		}
	}
}

func TestNames_BeginWithHostsAndListenOnTheirFamily(t *testing.T) {
	any4, any6 := net.IPv4zero, net.IPv6zero
	local := parseAll("127.0.0.1", "::1", "169.254.7.7", "198.51.100.2", "fe80::1", "2001:db8::2", "203.0.113.2")
	own := ownName()
	for _, c := range []struct {
		hosts []string
		at    net.IP
		want  []string
	}{
		{nil, any4, []string{"198.51.100.2:80", "203.0.113.2:80", "169.254.7.7:80"}},
		{nil, any6, []string{"198.51.100.2:80", "203.0.113.2:80", "[2001:db8::2]:80", "169.254.7.7:80"}},
		{[]string{own, "robot.example:443", "203.0.113.2"}, any4,
			[]string{"robot.example:443", "203.0.113.2:80", "198.51.100.2:80", "169.254.7.7:80", own + ":80"}},
		{nil, net.IPv4(203, 0, 113, 2), []string{"203.0.113.2:80"}},
		{nil, net.IPv4(203, 0, 113, 3), nil}, // it left this machine
		{nil, net.IPv4(127, 0, 0, 9), []string{"127.0.0.9:80"}},
	} {
		if got := names(Config{Hosts: c.hosts}, &net.TCPAddr{IP: c.at, Port: 80}, local); !slices.Equal(got, c.want) {
			t.Errorf("hosts %q at %v: %q, want %q", c.hosts, c.at, got, c.want)
		}
	}
}

func TestPairing_QRMatchesCode(t *testing.T) {
	p := Pairing{Place: Place{URL: "https://192.0.2.7:8642/#abcdefghijklmnopqrstuv"}}
	rows := strings.Split(strings.TrimRight(p.QR(), "\n"), "\n")
	width := len([]rune(rows[0]))
	for _, row := range rows {
		if len([]rune(row)) != width {
			t.Fatalf("rows of %d and %d characters", width, len([]rune(row)))
		}
	}
	if want := (width + 1) / 2; len(rows) != want {
		t.Errorf("%d rows of %d characters, want %d: a square", len(rows), width, want)
	}
	// The finder pattern's upper left corner, inside a quiet zone of two.
	if got := fmt.Sprintf("%.3s", string([]rune(rows[1])[:3])); got != "██ " {
		t.Errorf("the second row begins with %q, want the quiet zone and the finder pattern", got)
	}
}

func TestServer_ResetClearsStop(t *testing.T) {
	var firsts []bool
	s := open(t, func(_ *Config, o *Options) {
		o.Stop = func(_ string, first bool) { firsts = append(firsts, first) }
	})
	cookie := pairWith(t, s, token(s.Pairing().URL))
	press := func() {
		if got := post(t, s, "/stop", "", cookie, nil).StatusCode; got != http.StatusNoContent {
			t.Fatalf("status %d", got)
		}
	}
	press()
	press()
	for _, step := range []struct {
		fault   string
		stopped bool
	}{{"", true}, {"operator's stop", true}, {"operator's stop", true}, {"", false}} {
		s.Show(View{Fault: step.fault})
		if stopped := s.stopped.Load() != nil; stopped != step.stopped {
			t.Errorf("fault %q: stopped is %v", step.fault, stopped)
		}
	}
	press()
	if want := []bool{true, false, true}; !slices.Equal(firsts, want) {
		t.Errorf("the first press of a stop: %v, want %v", firsts, want)
	}
}
