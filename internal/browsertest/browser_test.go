//go:build linux

package browsertest

import (
	"image/color"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestOpen_RunsScriptsAndAppliesThemes(t *testing.T) {
	page := []byte(`<meta charset="utf-8">
		<style>body { background: #fff } @media (prefers-color-scheme: dark) { body { background: #123456 } }</style>
		<body><script>document.body.dataset.seen = location.hash + " \"<>";</script></body>`)
	if got := Attribute(t, DOM(t, page, "a=1"), "data-seen"); got != `#a=1 "<>` {
		t.Errorf("fragment %q", got)
	}
	for _, c := range []struct {
		dark bool
		want color.RGBA
	}{{false, color.RGBA{255, 255, 255, 255}}, {true, color.RGBA{0x12, 0x34, 0x56, 255}}} {
		r, g, b, _ := Picture(t, page, "--window-size=200,200", Theme(c.dark)).At(100, 100).RGBA()
		if got := (color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}); got != c.want {
			t.Errorf("dark %v: %v, want %v", c.dark, got, c.want)
		}
	}
}

func TestOpen_HasNoNetwork(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the browser reached a server")
	}))
	defer server.Close()
	page := []byte(`<body><script>
		const image = new Image();
		image.onerror = () => { document.body.dataset.network = "none"; };
		image.src = "` + server.URL + `/x.png";
	</script></body>`)
	if got := Attribute(t, DOM(t, page, ""), "data-network"); got != "none" {
		t.Errorf("network %s", got)
	}
}

func TestUnguarded_RemovesThePolicy(t *testing.T) {
	page := []byte(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'"><body></body>`)
	if got := string(Unguarded(page)); got != "<body></body>" {
		t.Errorf("got %s", got)
	}
}
