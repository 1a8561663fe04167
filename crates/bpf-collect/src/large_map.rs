//! Maps that the kernel takes long to zero. Small ones stand in for them while libbpf prepares the object, and meanwhile they are
//! made: programs know a map by its descriptor's number, and that becomes the large one's.
use std::os::fd::AsFd;

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{MapHandle, MapType, OpenMapMut};

use crate::error::CollectError;
use crate::loading::side_by_side;
use crate::skeleton::OpenSchedCriticalitySkel;

/// libbpf makes those that take fewer bytes.
const LARGE: u64 = 1 << 20;
/// Roughly what an element of a hash map takes beside its key and value, bytes.
const HASH_ELEMENT: u64 = 48;
const THREADS: usize = 2;

/// Large maps of an object that is open, the largest first.
#[derive(Debug)]
pub(crate) struct LargeMaps(Vec<Shape>);

/// The same, made.
#[derive(Debug)]
pub(crate) struct MadeMaps(Vec<(String, MapHandle)>);

#[derive(Debug)]
struct Shape {
    name: String,
    kind: MapType,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

impl Shape {
    fn of(map: &OpenMapMut<'_>) -> Self {
        Self {
            name: map.name().to_string_lossy().into_owned(),
            kind: map.map_type(),
            key: map.key_size(),
            value: map.value_size(),
            entries: map.max_entries(),
            flags: map.map_flags(),
        }
    }

    fn bytes(&self) -> u64 {
        let (key, value) = (u64::from(self.key), u64::from(self.value));
        u64::from(self.entries)
            * match self.kind {
                // It has no keys, and as many bytes as entries.
                MapType::RingBuf => 1,
                MapType::Hash => key + value + HASH_ELEMENT,
                _ => value,
            }
    }

    /// Under the same name, by which libbpf finds the map again.
    fn small(&self) -> Self {
        Self { name: self.name.clone(), kind: MapType::Array, key: 4, value: 8, entries: 1, flags: 0 }
    }

    fn make(&self) -> Result<MapHandle, CollectError> {
        let sz = size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t;
        let options = libbpf_sys::bpf_map_create_opts { sz, map_flags: self.flags, ..Default::default() };
        MapHandle::create(self.kind, Some(&self.name), self.key, self.value, self.entries, &options)
            .map_err(CollectError::Load)
    }
}

impl LargeMaps {
    /// Puts a small map in the place of each large one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn stand_in(open: &mut OpenSchedCriticalitySkel<'_>) -> Result<Self, CollectError> {
        let mut large = Vec::new();
        for mut map in open.open_object_mut().maps_mut().filter(|map| map.autocreate()) {
            let shape = Shape::of(&map);
            // That one has a lock, of which the kernel learns by the types that libbpf tells it.
            if shape.bytes() < LARGE || shape.name == "applications" {
                continue;
            }
            map.reuse_fd(shape.small().make()?.as_fd()).map_err(CollectError::Load)?;
            large.push(shape);
        }
        large.sort_by_key(|shape| std::cmp::Reverse(shape.bytes()));
        Ok(Self(large))
    }

    /// Makes them in two threads; this one does `first` before.
    ///
    /// # Errors
    /// The kernel's, or that of `first`.
    pub fn make<F>(self, first: impl FnOnce() -> Result<F, CollectError>) -> Result<(MadeMaps, F), CollectError> {
        let (made, first) = side_by_side(&self.0, THREADS, Shape::make, first)?;
        let made = made.into_iter().map(|(number, map)| (self.0[number].name.clone(), map));
        Ok((MadeMaps(made.collect()), first))
    }
}

impl MadeMaps {
    /// Puts them where they belong: descriptors keep their numbers.
    ///
    /// # Errors
    /// The system's.
    pub fn take_places(self, open: &mut OpenSchedCriticalitySkel<'_>) -> Result<(), CollectError> {
        for mut map in open.open_object_mut().maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if let Some((_, made)) = self.0.iter().find(|(of, _)| *of == name) {
                map.reuse_fd(made.as_fd()).map_err(CollectError::Load)?;
            }
        }
        Ok(())
    }
}
