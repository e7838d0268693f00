package redact_test

import (
	"testing"

	"optibfm/internal/redact"
)

func TestText_HidesLoginsAndQueries(t *testing.T) {
	for text, want := range map[string]string{
		"http://camera/stream":                         "http://camera/stream",
		"http://user:pass@camera/stream":               "http://***@camera/stream",
		"http://token@camera:8080":                     "http://***@camera:8080",
		"http://user:p/a#s@s@camera/x":                 "http://***@camera/x",
		`parse "https://u:p@c": bad`:                   `parse "https://***@c": bad`,
		"http://c/cgi?action=x&loginpas=s3cret#t":      "http://c/cgi?action=***&loginpas=***#t",
		"a http://u:p@c/?k=v, b rtsp://v:q@d":          "a http://***@c/?k=***, b rtsp://***@d",
		"http://c/?key=s3:cret.x: refused.":            "http://c/?key=***: refused.",
		"404 Not Found /snap?pwd=s3cret":               "404 Not Found /snap?pwd=***",
		"unix:/run/x.sock, tcp:host:1, me@example.org": "unix:/run/x.sock, tcp:host:1, me@example.org",
	} {
		if got := redact.Text(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
