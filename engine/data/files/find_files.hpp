#pragma once

#include <functional>
#include <string>
#include <vector>

namespace keelson {

/// A form of files, as names show it.
struct FileForm {
  std::string name;                                       ///< "HDF5"
  std::string ending;                                     ///< for messages: "end in .h5 or .hdf5"
  std::function<bool(const std::string& path)> has_name;  ///< whether a file name says that the file has this form
};

/// Whether a file name is that of TFRecords: "a.tfrecord", "a.tfrecords", "a.tfrecord.gz", "a.tfrecord-00001-of-00512".
bool is_tfrecord_name(const std::string& path);

FileForm hdf5_form();      ///< names that end in .h5, .hdf5 or .he5
FileForm tfrecord_form();  ///< is_tfrecord_name()

/// The files that `path` names: `path` itself if it is a file; if it is a folder, the files in it and below it whose
/// names say that they have one of these forms, without hidden files; if it is a pattern such as "data/run-*/x.h5", the
/// files that match. Sorted by bytes. Throws InputError with advice if there are no files, if a folder holds files of
/// several of these forms, or if it holds several splits of a data set (e.g. train and validation).
std::vector<std::string> find_files(const std::string& path, const std::vector<FileForm>& forms);

std::vector<std::string> find_hdf5_files(const std::string& path);  ///< those of hdf5_form()

}  // namespace keelson
