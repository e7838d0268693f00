package frames

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"math"
	"os"

	"github.com/blackjack/webcam"
)

// Formats of include/uapi/linux/videodev2.h.
const (
	mjpeg webcam.PixelFormat = 'M' | 'J'<<8 | 'P'<<16 | 'G'<<24
	yuyv  webcam.PixelFormat = 'Y' | 'U'<<8 | 'Y'<<16 | 'V'<<24
)

const (
	cameraBuffers = 3
	jpegQuality   = 75
)

// readCamera stores the frames of a V4L2 camera.
func (s *Store) readCamera(ctx context.Context, put func(int64, encoder) error) error {
	camera, err := webcam.Open(s.config.Camera)
	if err != nil {
		return cameraError(err)
	}
	defer camera.Close()
	encode, err := s.configure(camera)
	if err != nil {
		return err
	}
	if err := camera.StartStreaming(); err != nil {
		return fmt.Errorf("start: %w; another program may use the camera", err)
	}
	for ctx.Err() == nil {
		err := camera.WaitForFrame(1)
		var timeout *webcam.Timeout
		if errors.As(err, &timeout) {
			continue
		}
		if err != nil {
			return err
		}
		at := s.arrived()
		raw, index, err := camera.GetFrame()
		if err != nil {
			return err
		}
		err = put(at, func() ([]byte, error) { return encode(raw) })
		if err := errors.Join(err, camera.ReleaseFrame(index)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func cameraError(err error) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w; add the user to the group video", err)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w; connect the camera (v4l2-ctl --list-devices)", err)
	}
	return err
}

// configure selects format, size and rate. encode returns a copy of a frame as JPEG.
func (s *Store) configure(camera *webcam.Webcam) (encode func([]byte) ([]byte, error), err error) {
	formats := camera.GetSupportedFormats()
	format := mjpeg
	if _, ok := formats[format]; !ok {
		format = yuyv
	}
	if _, ok := formats[format]; !ok {
		return nil, fmt.Errorf("neither MJPEG nor YUYV (%v); use another camera", formats)
	}
	width, height := nearestSize(camera.GetSupportedFrameSizes(format), s.config.Width, s.config.Height)
	if _, _, _, err := camera.SetImageFormat(format, uint32(width), uint32(height)); err != nil {
		return nil, fmt.Errorf("%d x %d: %w", width, height, err)
	}
	_ = camera.SetFramerate(float32(s.config.RateHz)) // many cameras have one rate; the store limits it
	if err := camera.SetBufferCount(cameraBuffers); err != nil {
		return nil, err
	}
	if format == mjpeg {
		return func(raw []byte) ([]byte, error) { return bytes.Clone(raw), nil }, nil
	}
	return func(raw []byte) ([]byte, error) { return encodeYUYV(raw, width, height) }, nil
}

// nearestSize returns the size of a camera that is nearest to the configured one. SetImageFormat of
// the library returns the requested size, not the granted one.
func nearestSize(sizes []webcam.FrameSize, width, height int) (w, h int) {
	w, h = width, height
	best := math.MaxInt
	for _, s := range sizes {
		sw := nearest(width, s.MinWidth, s.MaxWidth, s.StepWidth)
		sh := nearest(height, s.MinHeight, s.MaxHeight, s.StepHeight)
		if far := max(sw-width, width-sw) + max(sh-height, height-sh); far < best {
			best, w, h = far, sw, sh
		}
	}
	return w, h
}

func nearest(wanted int, least, most, step uint32) int {
	n := min(max(wanted, int(least)), int(most))
	if step > 1 {
		n -= (n - int(least)) % int(step)
	}
	return n
}

// encodeYUYV encodes a picture of two bytes a pixel, Y0 U Y1 V.
func encodeYUYV(raw []byte, width, height int) ([]byte, error) {
	if width <= 0 || height <= 0 || width%2 != 0 || len(raw) < 2*width*height {
		return nil, fmt.Errorf("incomplete picture (%d bytes for %d x %d)", len(raw), width, height)
	}
	picture := image.NewYCbCr(image.Rect(0, 0, width, height), image.YCbCrSubsampleRatio422)
	for i := range width * height / 2 {
		picture.Y[2*i], picture.Cb[i], picture.Y[2*i+1], picture.Cr[i] = raw[4*i], raw[4*i+1], raw[4*i+2], raw[4*i+3]
	}
	var out bytes.Buffer
	err := jpeg.Encode(&out, picture, &jpeg.Options{Quality: jpegQuality})
	return out.Bytes(), err
}
