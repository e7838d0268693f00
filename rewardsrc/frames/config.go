package frames

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"optibfm/internal/keys"
	"optibfm/internal/redact"
)

// Config selects the source of pictures. Without a camera and a URL there are none.
type Config struct {
	// Camera is a V4L2 device, such as /dev/video0.
	Camera string `yaml:"camera"`
	// URL is an MJPEG stream or a picture over HTTP: http://host/path, or unix:/path/of/socket.
	URL string `yaml:"url"`
	// Width and height are the size of a camera's picture in pixels. The camera may choose another
	// size.
	Width int `yaml:"width" rule:"[16, 4096]"`
	// Height is the height of a camera's picture in pixels.
	Height int `yaml:"height" rule:"[16, 4096]"`
	// RateHz is the largest number of frames a second.
	RateHz float64 `yaml:"rate_hz" rule:"[0.1, 60]"`
	// DelayMS is the age of a frame when it arrives, for sources that do not send its time: some
	// network cameras need half a second.
	DelayMS float64 `yaml:"delay_ms" rule:"[0, 10000]"`
}

// DefaultConfig is pictures of 320 x 240 at 15 Hz, from no source.
func DefaultConfig() Config { return Config{Width: 320, Height: 240, RateHz: 15} }

// Enabled reports whether there is a source.
func (c Config) Enabled() bool { return c.Camera != "" || c.URL != "" }

// Validate returns an error that names each key with an invalid value.
func (c Config) Validate() error {
	errs := []error{keys.Check("frames", c)}
	if c.Camera != "" && c.URL != "" {
		errs = append(errs, errors.New("frames: camera and url are both set; remove one"))
	}
	if c.URL != "" {
		errs = append(errs, checkURL(c.URL))
	}
	return errors.Join(errs...)
}

// maxSocketPath is the size of sun_path in sockaddr_un, less its final zero.
const maxSocketPath = 107

func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil: // whose text may have a part of a password
		return fmt.Errorf("frames: url: not an address (%q); use http://host/path or unix:/path, "+
			"and %%XX for special characters of a password", redact.Text(text))
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
		return nil
	case u.Scheme == "unix" && len(u.Path) > maxSocketPath:
		return fmt.Errorf("frames: url: the path is too long (%d bytes); use at most %d", len(u.Path), maxSocketPath)
	case u.Scheme == "unix" && u.Path != "":
		return nil
	}
	return fmt.Errorf("frames: url: invalid (%q); use http://host/path or unix:/path", redact.Text(text))
}

func (c Config) period() time.Duration { return time.Duration(float64(time.Second) / c.RateHz) }
