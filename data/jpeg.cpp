#include "data/jpeg.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>
// jerror.h needs jpeglib.h, and jpeglib.h needs <cstdio>.
#include <jerror.h>

#include "core/error.h"
#include "data/sample.h"

namespace poseidon::data {

namespace {

/// Maximum number of scans of a progressive file. A hostile file may repeat a large scan thousands
/// of times.
constexpr int kMaxScans = 100;
constexpr long kMaxMemory = 1L << 30;

/// libjpeg reports errors by a longjmp to the setjmp in the functions below that begin with `try_`.
/// These functions then return false. They have only trivial objects, since a longjmp runs no
/// destructors.
struct ErrorReturn {
  jpeg_error_mgr manager;
  std::jmp_buf place;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void return_error(j_common_ptr jpeg) {
  auto* error = reinterpret_cast<ErrorReturn*>(jpeg->err);
  error->manager.format_message(jpeg, error->message);
  std::longjmp(error->place, 1);
}

/// libjpeg only warns about damaged data and fills the rest with gray. Such a sample is useless for
/// training, so these warnings become errors. Other warnings (skipped bytes between segments) do
/// not affect the image.
void judge_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_NOT_SEQUENTIAL: return_error(jpeg);
    default: ++jpeg->err->num_warnings;
  }
}

void keep_message(j_common_ptr) {}

void count_scans(j_common_ptr jpeg) {
  if (!jpeg->is_decompressor) return;
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > kMaxScans) {
    jpeg->err->msg_code = JERR_BAD_PROGRESSION;
    return_error(jpeg);
  }
}

void set_up(ErrorReturn& error) {
  jpeg_std_error(&error.manager);
  error.manager.error_exit = return_error;
  error.manager.emit_message = judge_message;
  error.manager.output_message = keep_message;
}

/// The part of the image that is decoded, in pixels of the scaled image.
struct Window {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

struct Decompressor {
  jpeg_decompress_struct jpeg{};
  ErrorReturn error{};
  jpeg_progress_mgr progress{};
};

bool try_create(Decompressor& d) {
  set_up(d.error);
  d.jpeg.err = &d.error.manager;
  if (setjmp(d.error.place) != 0) return false;
  jpeg_create_decompress(&d.jpeg);
  d.progress.progress_monitor = count_scans;
  d.jpeg.progress = &d.progress;
  d.jpeg.mem->max_memory_to_use = kMaxMemory;
  return true;
}

bool try_read_header(Decompressor& d, const std::byte* bytes, size_t count) {
  if (setjmp(d.error.place) != 0) return false;
  jpeg_abort_decompress(&d.jpeg);
  jpeg_mem_src(&d.jpeg, reinterpret_cast<const unsigned char*>(bytes),
               static_cast<unsigned long>(count));
  jpeg_read_header(&d.jpeg, TRUE);
  return true;
}

/// Starts decoding at eighths/8 of the size and skips to the window. Clips the window to the image.
/// Moves the window's left edge to the left, to the next position at which libjpeg can begin.
bool try_start(Decompressor& d, unsigned eighths, J_COLOR_SPACE colors, Window& window) {
  if (setjmp(d.error.place) != 0) return false;
  d.jpeg.scale_num = eighths;
  d.jpeg.scale_denom = 8;
  d.jpeg.out_color_space = colors;
  d.jpeg.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&d.jpeg);
  const int64_t output_height = d.jpeg.output_height, output_width = d.jpeg.output_width;
  window.height = std::min(window.height, output_height - window.top);
  window.width = std::min(window.width, output_width - window.left);
  if (window.width < output_width) {
    JDIMENSION left = static_cast<JDIMENSION>(window.left);
    JDIMENSION width = static_cast<JDIMENSION>(window.width);
    jpeg_crop_scanline(&d.jpeg, &left, &width);
    window.left = left;
    window.width = width;
  }
  if (window.top > 0) jpeg_skip_scanlines(&d.jpeg, static_cast<JDIMENSION>(window.top));
  return true;
}

void read_rows(j_decompress_ptr jpeg, uint8_t* out, int64_t rows, int64_t row_bytes) {
  constexpr int64_t kMaxRows = 16;
  JSAMPROW pointers[kMaxRows];
  while (rows > 0) {
    const int64_t count = std::min(rows, kMaxRows);
    for (int64_t i = 0; i < count; ++i) pointers[i] = out + i * row_bytes;
    const JDIMENSION got = jpeg_read_scanlines(jpeg, pointers, static_cast<JDIMENSION>(count));
    if (got == 0) ERREXIT(jpeg, JERR_INPUT_EOF);
    out += got * row_bytes;
    rows -= got;
  }
}

bool try_read_rows(Decompressor& d, uint8_t* out, int64_t rows, int64_t row_bytes) {
  if (setjmp(d.error.place) != 0) return false;
  read_rows(&d.jpeg, out, rows, row_bytes);
  jpeg_abort_decompress(&d.jpeg);
  return true;
}

/// Returns the smallest number of eighths that reduces the size by at most `shrink`. Uses only the
/// factors for which libjpeg-turbo has fast code.
unsigned eighths_for(double shrink) {
  for (unsigned eighths : {1u, 2u, 4u})
    if (shrink * eighths >= 8) return eighths;
  return 8;
}

/// Returns the region of the scaled image that contains `box`, with a margin of two pixels. The
/// margin is necessary because libjpeg interpolates color from one side only at the edges of the
/// decoded part.
Window window_for(const Box& box, double scale, int64_t image_height, int64_t image_width) {
  constexpr int64_t kMargin = 2;
  const auto low = [&](int64_t from) {
    return std::max<int64_t>(0, static_cast<int64_t>(static_cast<double>(from) * scale) - kMargin);
  };
  const auto high = [&](int64_t to, int64_t extent) {
    const int64_t whole = static_cast<int64_t>(static_cast<double>(extent) * scale) + 1;
    return std::min(whole, static_cast<int64_t>(static_cast<double>(to) * scale) + 1 + kMargin);
  };
  Window window;
  window.top = low(box.top);
  window.left = low(box.left);
  window.height = high(box.top + box.height, image_height) - window.top;
  window.width = high(box.left + box.width, image_width) - window.left;
  return window;
}

/// Converts CMYK to RGB. `inverted`: the CMYK values are inverted, as in files of Adobe programs.
void cmyk_to_rgb(const Image& cmyk, bool inverted, Image& out) {
  out.reshape(cmyk.height, cmyk.width, 3);
  for (size_t i = 0; i < out.pixels.size() / 3; ++i) {
    const auto light = [&](size_t c) {
      const int value = cmyk.pixels[4 * i + c];
      return inverted ? value : 255 - value;
    };
    for (size_t c = 0; c < 3; ++c)
      out.pixels[3 * i + c] = static_cast<uint8_t>((light(c) * light(3) + 127) / 255);
  }
}

}  // namespace

struct JpegDecoder::State {
  Decompressor decompressor;
  std::string name;
  Image cmyk;

  [[noreturn]] void fail() const {
    throw CorruptSample(text(name, ": cannot be decoded: ", decompressor.error.message));
  }
  /// Throws CorruptSample if the window has too many pixels. The window is in pixels of the image
  /// scaled by `scale`.
  void check_window(const Window& window, double scale) const {
    const auto within = [&](int64_t count, int64_t begin, JDIMENSION extent) {
      return std::min(count, static_cast<int64_t>(std::ceil(extent * scale)) - begin);
    };
    const int64_t height = within(window.height, window.top, decompressor.jpeg.image_height);
    const int64_t width = within(window.width, window.left, decompressor.jpeg.image_width);
    if (height * width > kMaxImagePixels)
      throw CorruptSample(text(name, ": expected at most ", kMaxImagePixels,
                               " pixels to be decoded, got ", height, "x", width,
                               "; shrink larger images with poseidon-data pack --resize"));
  }
  bool is_cmyk() const {
    return decompressor.jpeg.jpeg_color_space == JCS_CMYK ||
           decompressor.jpeg.jpeg_color_space == JCS_YCCK;
  }
};

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {
  if (!try_create(state_->decompressor))
    throw RunError(text("libjpeg cannot be initialized: ", state_->decompressor.error.message));
}

JpegDecoder::~JpegDecoder() { jpeg_destroy_decompress(&state_->decompressor.jpeg); }

std::array<int64_t, 3> JpegDecoder::open(std::span<const std::byte> bytes,
                                         const std::string& name) {
  state_->name = name;
  Decompressor& d = state_->decompressor;
  if (!try_read_header(d, bytes.data(), bytes.size())) state_->fail();
  return {d.jpeg.image_height, d.jpeg.image_width, d.jpeg.num_components == 1 ? 1 : 3};
}

void JpegDecoder::decode(const Box& box, double shrink, int channels, DecodedPart& out) {
  Decompressor& d = state_->decompressor;
  const bool cmyk = state_->is_cmyk();
  const bool to_grey = channels == 1 && (d.jpeg.jpeg_color_space == JCS_GRAYSCALE ||
                                         d.jpeg.jpeg_color_space == JCS_YCbCr);
  const J_COLOR_SPACE colors = cmyk ? JCS_CMYK : to_grey ? JCS_GRAYSCALE : JCS_RGB;
  const unsigned eighths = eighths_for(shrink);
  out.scale = eighths / 8.0;
  Window window = window_for(box, out.scale, d.jpeg.image_height, d.jpeg.image_width);
  state_->check_window(window, out.scale);
  if (!try_start(d, eighths, colors, window)) state_->fail();

  Image& image = cmyk ? state_->cmyk : out.image;
  image.reshape(window.height, window.width, cmyk ? 4 : to_grey ? 1 : 3);
  if (!try_read_rows(d, image.pixels.data(), window.height, window.width * image.channels))
    state_->fail();
  if (cmyk) cmyk_to_rgb(image, d.jpeg.saw_Adobe_marker != 0, out.image);
  if (channels == 1 && !to_grey) {
    const std::vector<uint8_t> colours = out.image.pixels;
    convert_channels(colours.data(), 3, 1, out.image);
  }
  out.top = static_cast<double>(window.top);
  out.left = static_cast<double>(window.left);
}

namespace {

struct Compressor {
  jpeg_compress_struct jpeg{};
  ErrorReturn error{};
  unsigned char* bytes = nullptr;
  unsigned long count = 0;
};

bool try_encode(Compressor& c, const uint8_t* pixels, int64_t height, int64_t width,
                int64_t channels, int quality) {
  set_up(c.error);
  c.jpeg.err = &c.error.manager;
  if (setjmp(c.error.place) != 0) return false;
  jpeg_create_compress(&c.jpeg);
  jpeg_mem_dest(&c.jpeg, &c.bytes, &c.count);
  c.jpeg.image_height = static_cast<JDIMENSION>(height);
  c.jpeg.image_width = static_cast<JDIMENSION>(width);
  c.jpeg.input_components = static_cast<int>(channels);
  c.jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&c.jpeg);
  jpeg_set_quality(&c.jpeg, quality, TRUE);
  c.jpeg.optimize_coding = TRUE;
  jpeg_start_compress(&c.jpeg, TRUE);
  for (int64_t y = 0; y < height; ++y) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels + y * width * channels);
    jpeg_write_scanlines(&c.jpeg, &row, 1);
  }
  jpeg_finish_compress(&c.jpeg);
  return true;
}

}  // namespace

std::vector<std::byte> encode_jpeg(const Image& image, int quality) {
  check(image.channels == 1 || image.channels == 3, "a JPEG file has 1 or 3 channels");
  Compressor c;
  const bool done =
      try_encode(c, image.pixels.data(), image.height, image.width, image.channels, quality);
  const auto* bytes = reinterpret_cast<const std::byte*>(c.bytes);
  std::vector<std::byte> out;
  if (done) out.assign(bytes, bytes + c.count);
  jpeg_destroy_compress(&c.jpeg);
  std::free(c.bytes);
  if (!done) throw RunError(text("an image cannot be encoded: ", c.error.message));
  return out;
}

}  // namespace poseidon::data
