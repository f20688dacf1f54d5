package coordinator_state;

import io.delta.storage.GCSLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.IOUtils;

/**
 * Writes each commit of a Delta table by one conditional write of S3 (If-None-Match).
 *
 * <p>The log stores of Delta call FileSystem.create. S3A then looks whether the object exists, and
 * replaces it if another process has written it in between.
 *
 * <p>Janino compiles this class when a session starts. It knows no lambda and no type arguments.
 */
public class ConditionalLogStore extends GCSLogStore {
  public ConditionalLogStore(Configuration hadoopConf) {
    super(hadoopConf);
  }

  public void write(Path path, Iterator actions, Boolean overwrite, Configuration hadoopConf)
      throws IOException {
    if (overwrite.booleanValue()) {
      super.write(path, actions, overwrite, hadoopConf);
      return;
    }
    ByteArrayOutputStream lines = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      lines.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
    }
    create(path, lines.toByteArray(), hadoopConf);
  }

  /** Creates a file; FileAlreadyExistsException if there is one with other bytes. */
  public static void create(Path path, byte[] bytes, Configuration hadoopConf) throws IOException {
    FileSystem fileSystem = path.getFileSystem(hadoopConf);
    FSDataOutputStreamBuilder builder = fileSystem.createFile(path);
    builder.overwrite(false);
    builder.must("fs.option.create.conditional.overwrite", true);
    try {
      FSDataOutputStream out = (FSDataOutputStream) builder.build();
      out.write(bytes);
      out.close();
    } catch (IOException error) {
      // An earlier attempt may have succeeded although its answer was lost.
      if (!fileSystem.exists(path)) {
        throw error;
      }
      if (!Arrays.equals(read(fileSystem, path), bytes)) {
        throw (IOException) new FileAlreadyExistsException(path.toString()).initCause(error);
      }
    }
  }

  private static byte[] read(FileSystem fileSystem, Path path) throws IOException {
    FSDataInputStream in = fileSystem.open(path);
    try {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      IOUtils.copyBytes(in, bytes, 65536, false);
      return bytes.toByteArray();
    } finally {
      in.close();
    }
  }
}
